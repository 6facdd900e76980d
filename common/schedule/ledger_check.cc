#include "common/schedule/ledger_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace pipedream {
namespace {

// The ways of training that can be told apart by versions. (kSpeculative is kFlush in that.)
constexpr WeightPolicy kPolicies[] = {WeightPolicy::kFlush, WeightPolicy::kStash,
                                      WeightPolicy::kVerticalSync, WeightPolicy::kDoubleBuffer,
                                      WeightPolicy::kSingle};

// The version that is the newest at a forward: the updates that lie wholly before the microbatches
// that are still ahead of their backwards.
int64_t NewestAtForward(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                        int64_t microbatch) {
  const int64_t replicas = shape.replicas[stage.value()];
  const int64_t depth = WarmupDepth(shape, stage);
  if (policy == WeightPolicy::kStash) return std::max<int64_t>(0, microbatch / replicas - depth);
  return std::max<int64_t>(0, microbatch - depth * replicas) / UpdateSpan(shape, policy, stage);
}

struct Field {
  int64_t LedgerEntry::*member;
  std::string_view what;
  std::string_view unit;
};
constexpr Field kFields[] = {
    {&LedgerEntry::forward, "its forward reads", "version"},
    {&LedgerEntry::backward, "its backward reads", "version"},
    {&LedgerEntry::weight, "its weight gradient reads", "version"},
    {&LedgerEntry::update, "its gradient enters", "update"},
};

std::optional<LedgerFault> Compare(const StageLedger& stage, const LedgerEntry& found,
                                   const LedgerEntry& expected) {
  LedgerFault fault{
      .stage = stage.stage, .replica = stage.replica, .microbatch = MicrobatchId(found.microbatch)};
  if (found.microbatch != expected.microbatch) {
    fault.what = "comes next:";
    fault.expected = fmt::format("microbatch {}", expected.microbatch);
    fault.found = fmt::format("microbatch {}", found.microbatch);
    return fault;
  }
  for (const Field& field : kFields) {
    if (found.*field.member == expected.*field.member) continue;
    fault.what = field.what;
    fault.expected = fmt::format("{} {}", field.unit, expected.*field.member);
    fault.found = fmt::format("{} {}", field.unit, found.*field.member);
    return fault;
  }
  return std::nullopt;
}

}  // namespace

LedgerEntry ExpectedEntry(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                          MicrobatchId microbatch) {
  const std::optional<WeightVersion> given = ForwardVersion(shape, policy, stage, microbatch);
  const int64_t update = UpdateOf(shape, policy, stage, microbatch);
  const int64_t forward =
      given ? given->value() : NewestAtForward(shape, policy, stage, microbatch.value());
  // One copy: the backward finds all updates made but its own.
  const int64_t backward = BackwardReadsForwardVersion(policy) ? forward : update;
  return {microbatch.value(), forward, backward, backward, update};
}

std::string_view PolicyMeaning(WeightPolicy policy) {
  switch (policy) {
    case WeightPolicy::kFlush:
    case WeightPolicy::kSpeculative:
      return "minibatch t reads version t on every stage";
    case WeightPolicy::kStash:
      return "microbatch i reads version max(0, i/r - d) of its stage, in its backward too";
    case WeightPolicy::kVerticalSync:
      return "microbatch i reads version max(0, i - d) of the first stage on every stage";
    case WeightPolicy::kDoubleBuffer:
      return "minibatch t reads version max(0, t - 1) on every stage";
    case WeightPolicy::kSingle:
      return "forward and backward read the newest version, each for itself";
  }
  return "";
}

std::string LedgerFault::ToString() const {
  std::string place = fmt::format("stage {} replica {}", stage, replica);
  if (microbatch.value() >= 0) place += fmt::format(", microbatch {}", microbatch);
  return fmt::format("{}: {} {}, expected {}", place, what, found, expected);
}

std::optional<LedgerFault> FindMissing(const RunLedger& ledger, const ScheduleShape& shape,
                                       const IsFilled& filled) {
  auto stage_ledger = ledger.stages.begin();
  for (int s = 0; s < shape.stages(); ++s) {
    for (int r = 0; r < shape.replicas[s]; ++r) {
      LedgerFault fault{.stage = StageId(s), .replica = ReplicaId(r), .what = "the ledger holds"};
      if (stage_ledger == ledger.stages.end() || stage_ledger->stage != fault.stage ||
          stage_ledger->replica != fault.replica) {
        fault.expected = "this stage replica";
        fault.found = "nothing of it";
        return fault;
      }
      std::vector<bool> seen(shape.microbatches());
      auto expect = [&](int64_t microbatch) {
        const MicrobatchId id(microbatch);
        return microbatch >= 0 && microbatch < shape.microbatches() &&
               ReplicaOf(shape, fault.stage, id) == fault.replica && filled(id);
      };
      stage_ledger->versions.ForEach([&](const LedgerEntry& entry) {
        fault.microbatch = MicrobatchId(entry.microbatch);
        if (!expect(entry.microbatch)) {
          fault.found = "it";
          fault.expected = "another replica to have it, or nobody";
        } else if (seen[entry.microbatch]) {
          fault.found = "it twice";
          fault.expected = "once";
        } else {
          seen[entry.microbatch] = true;
        }
        return fault.found.empty();
      });
      if (!fault.found.empty()) return fault;
      for (int64_t i = r; i < shape.microbatches(); i += shape.replicas[s]) {
        if (seen[i] || !expect(i)) continue;
        fault.microbatch = MicrobatchId(i);
        fault.found = stage_ledger->versions.omitted() > 0
                          ? fmt::format("no more: it was full, {} entries are left out",
                                        stage_ledger->versions.omitted())
                          : "nothing of it";
        fault.expected = "it once";
        return fault;
      }
      ++stage_ledger;
    }
  }
  if (stage_ledger != ledger.stages.end())
    return LedgerFault{.stage = stage_ledger->stage,
                       .replica = stage_ledger->replica,
                       .what = "the ledger holds",
                       .expected = "no such stage replica in the run",
                       .found = "it"};
  return std::nullopt;
}

std::optional<LedgerFault> FindDeparture(const RunLedger& ledger, const ScheduleShape& shape,
                                         WeightPolicy policy) {
  std::optional<LedgerFault> fault;
  for (const StageLedger& stage : ledger.stages) {
    stage.versions.ForEach([&](const LedgerEntry& entry) {
      fault = Compare(stage, entry,
                      ExpectedEntry(shape, policy, stage.stage, MicrobatchId(entry.microbatch)));
      return !fault.has_value();
    });
    if (fault) break;
  }
  return fault;
}

std::optional<LedgerFault> FindDeparture(const RunLedger& ledger,
                                         const std::vector<StageProgram>& programs,
                                         const IsFilled& filled) {
  for (const StageLedger& stage : ledger.stages) {
    const ScheduleShape& shape = programs[0].shape;
    const StageProgram& program = programs[WorkerIndex(shape, {stage.stage, stage.replica})];
    const VersionLedger expected = LedgerOf(program, ChunkOf(shape, stage.stage), filled);
    if (stage.versions == expected) continue;
    std::vector<LedgerEntry> entries;
    expected.ForEach([&](const LedgerEntry& entry) {
      entries.push_back(entry);
      return true;
    });
    size_t at = 0;
    std::optional<LedgerFault> fault;
    stage.versions.ForEach([&](const LedgerEntry& entry) {
      if (at < entries.size()) fault = Compare(stage, entry, entries[at++]);
      return !fault.has_value();
    });
    if (fault) return fault;
  }
  return std::nullopt;
}

std::vector<WeightPolicy> PoliciesFollowed(const RunLedger& ledger, const ScheduleShape& shape) {
  std::vector<WeightPolicy> followed;
  for (WeightPolicy policy : kPolicies) {
    if (!FindDeparture(ledger, shape, policy)) followed.push_back(policy);
  }
  return followed;
}

std::optional<LedgerFault> FindUnequalReplicas(const RunLedger& ledger) {
  for (size_t i = 1; i < ledger.stages.size(); ++i) {
    const StageLedger& stage = ledger.stages[i];
    const StageLedger& before = ledger.stages[i - 1];
    if (stage.stage != before.stage) continue;
    std::map<int64_t, uint64_t> hashes;
    for (const WeightDigest& digest : before.digests) hashes[digest.version] = digest.hash;
    for (const WeightDigest& digest : stage.digests) {
      auto other = hashes.find(digest.version);
      if (other == hashes.end() || other->second == digest.hash) continue;
      return LedgerFault{stage.stage,
                         stage.replica,
                         MicrobatchId(-1),
                         fmt::format("the weights of version {} have digest", digest.version),
                         fmt::format("{:016x} as in replica {}", other->second, before.replica),
                         fmt::format("{:016x}", digest.hash)};
    }
  }
  return std::nullopt;
}

std::optional<LedgerFault> FindOtherWeights(const RunLedger& found, const RunLedger& expected,
                                            int64_t* compared) {
  std::map<std::pair<Peer, int64_t>, uint64_t> hashes;
  for (const StageLedger& stage : expected.stages) {
    for (const WeightDigest& digest : stage.digests)
      hashes[{{stage.stage, stage.replica}, digest.version}] = digest.hash;
  }
  std::optional<LedgerFault> first;
  *compared = 0;
  int64_t first_version = 0;
  for (const StageLedger& stage : found.stages) {
    for (const WeightDigest& digest : stage.digests) {
      auto other = hashes.find({{stage.stage, stage.replica}, digest.version});
      if (other == hashes.end()) continue;
      ++*compared;
      if (other->second == digest.hash || (first && first_version <= digest.version)) continue;
      first_version = digest.version;
      first = LedgerFault{stage.stage,
                          stage.replica,
                          MicrobatchId(-1),
                          fmt::format("the weights of version {} have digest", digest.version),
                          fmt::format("{:016x}", other->second),
                          fmt::format("{:016x}", digest.hash)};
    }
  }
  return first;
}

}  // namespace pipedream
