#include "common/codec/ledger_codec.h"

#include <utility>

#include "common/base/status.h"
#include "common/codec/field_check.h"

namespace pipedream {
namespace {

using Numbers = google::protobuf::RepeatedField<int64_t>;

void Write(const LedgerEntry& e, Numbers* out) {
  for (int64_t n : {e.microbatch, e.forward, e.backward, e.weight, e.update}) out->Add(n);
}

absl::StatusOr<LedgerEntry> Read(const Numbers& n) {
  if (n.size() != 5)
    return InvalidArgument("LedgerLoop: found an entry of {} numbers, expected 5", n.size());
  return LedgerEntry{n[0], n[1], n[2], n[3], n[4]};
}

void Write(const LedgerLoop& loop, v1::LedgerLoop* out) {
  Write(loop.first, out->mutable_first());
  if (loop.repeat > 1) Write(loop.stride, out->mutable_stride());
  out->set_repeat(loop.repeat);
  for (const LedgerLoop& part : loop.body) Write(part, out->add_body());
}

absl::StatusOr<LedgerLoop> Read(const v1::LedgerLoop& message, int depth) {
  if (depth > VersionLedger::kMaxDepth)
    return InvalidArgument("LedgerLoop: nested deeper than {}", VersionLedger::kMaxDepth);
  LedgerLoop loop;
  PD_ASSIGN_OR_RETURN(loop.first, Read(message.first()));
  if (!message.stride().empty()) {
    PD_ASSIGN_OR_RETURN(loop.stride, Read(message.stride()));
  }
  loop.repeat = message.repeat();
  for (const v1::LedgerLoop& part : message.body()) {
    PD_ASSIGN_OR_RETURN(LedgerLoop inner, Read(part, depth + 1));
    loop.body.push_back(std::move(inner));
  }
  return loop;
}

}  // namespace

v1::StageLedger ToProto(const StageLedger& ledger) {
  v1::StageLedger message;
  message.set_stage(ledger.stage.value());
  message.set_replica(ledger.replica.value());
  for (const LedgerLoop& loop : ledger.versions.loops()) Write(loop, message.add_loops());
  message.set_omitted(ledger.versions.omitted());
  for (const WeightDigest& digest : ledger.digests) {
    v1::WeightDigest* out = message.add_digests();
    out->set_version(digest.version);
    out->set_hash(digest.hash);
  }
  return message;
}

absl::StatusOr<StageLedger> FromProto(const v1::StageLedger& message) {
  FieldCheck check("StageLedger");
  check.Int32("stage", message.stage());
  check.Int32("replica", message.replica());
  check.Listed("digests", message.digests_size(), kMaxDigests);
  PD_RETURN_IF_ERROR(check.status());
  StageLedger ledger{StageId(message.stage()), ReplicaId(message.replica()), {}, {}};
  std::vector<LedgerLoop> loops;
  for (const v1::LedgerLoop& loop : message.loops()) {
    PD_ASSIGN_OR_RETURN(LedgerLoop read, Read(loop, 1));
    loops.push_back(std::move(read));
  }
  PD_ASSIGN_OR_RETURN(ledger.versions,
                      VersionLedger::FromLoops(std::move(loops), message.omitted()));
  for (const v1::WeightDigest& digest : message.digests())
    ledger.digests.push_back({digest.version(), digest.hash()});
  return ledger;
}

}  // namespace pipedream
