#include "common/schedule/ledger.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace pipedream {
namespace {

constexpr int64_t kMaxNumber = int64_t{1} << 32;

// Whether `b` is `a` with `delta` added to all entries.
bool IsShifted(const LedgerLoop& a, const LedgerLoop& b, const LedgerEntry& delta) {
  return a.repeat == b.repeat && a.stride == b.stride && a.first + delta == b.first &&
         std::ranges::equal(a.body, b.body, [&](const LedgerLoop& x, const LedgerLoop& y) {
           return IsShifted(x, y, delta);
         });
}

int DepthOf(const LedgerLoop& loop) {
  int depth = 0;
  for (const LedgerLoop& part : loop.body) depth = std::max(depth, DepthOf(part));
  return depth + 1;
}

bool IsSmall(const LedgerEntry& e) {
  return std::ranges::all_of(
      std::initializer_list<int64_t>{e.microbatch, e.forward, e.backward, e.weight, e.update},
      [](int64_t n) { return n > -kMaxNumber && n < kMaxNumber; });
}

// `most`: entries that may still come.
absl::StatusOr<int64_t> CheckLoop(const LedgerLoop& loop, int depth, int64_t most) {
  if (depth > VersionLedger::kMaxDepth)
    return InvalidArgument("loops are nested deeper than {}", VersionLedger::kMaxDepth);
  if (loop.body.size() > VersionLedger::kMaxPeriod)
    return InvalidArgument("found a loop over {} others, expected at most {}", loop.body.size(),
                           VersionLedger::kMaxPeriod);
  if (!IsSmall(loop.first) || !IsSmall(loop.stride))
    return InvalidArgument("found a number of more than 32 bits");
  if (!loop.body.empty() && loop.first != loop.body[0].first)
    return InvalidArgument("a loop does not begin with the first entry of its body");
  int64_t entries = loop.body.empty() ? 1 : 0;
  for (const LedgerLoop& part : loop.body) {
    PD_ASSIGN_OR_RETURN(int64_t inner, CheckLoop(part, depth + 1, most - entries));
    entries += inner;
  }
  if (loop.repeat < 1 || loop.repeat > most / entries)
    return InvalidArgument("found a loop that repeats {} times, expected 1 to {}", loop.repeat,
                           most / entries);
  return entries * loop.repeat;
}

}  // namespace

int64_t LedgerLoop::entries() const {
  int64_t inside = body.empty() ? 1 : 0;
  for (const LedgerLoop& part : body) inside += part.entries();
  return inside * repeat;
}

void VersionLedger::Append(const LedgerEntry& entry) {
  if (omitted_ > 0) {
    ++omitted_;
    return;
  }
  if (open_) {
    LedgerLoop& loop = loops_.back();
    if (loop.repeat == 1) loop.stride = entry - loop.first;
    if (last_ + loop.stride == entry) {
      ++loop.repeat;
      ++size_;
      last_ = entry;
      return;
    }
    Fold();
  }
  if (loops_.size() == kMaxLoops) {
    open_ = false;
    omitted_ = 1;
    return;
  }
  loops_.push_back({entry});
  last_ = entry;
  open_ = true;
  ++size_;
}

void VersionLedger::Fold() {
  bool folded = true;
  while (folded) {
    folded = false;
    for (size_t period = 1; period <= kMaxPeriod && !folded; ++period) {
      folded = Extend(period) || Begin(period);
    }
  }
}

// The last `period` loops are the next repetition of the one before them.
bool VersionLedger::Extend(size_t period) {
  const size_t count = loops_.size();
  if (count < period + 1) return false;
  LedgerLoop& loop = loops_[count - period - 1];
  if (loop.body.size() != period) return false;
  const LedgerEntry delta = loop.stride * loop.repeat;
  for (size_t i = 0; i < period; ++i) {
    if (!IsShifted(loop.body[i], loops_[count - period + i], delta)) return false;
  }
  ++loop.repeat;
  loops_.resize(count - period);
  return true;
}

// The last `period` loops repeat as many before them.
bool VersionLedger::Begin(size_t period) {
  const size_t count = loops_.size();
  if (count < 2 * period) return false;
  const LedgerEntry delta = loops_[count - period].first - loops_[count - 2 * period].first;
  for (size_t i = count - period; i < count; ++i) {
    if (!IsShifted(loops_[i - period], loops_[i], delta) || DepthOf(loops_[i]) >= kMaxDepth) {
      return false;
    }
  }
  loops_.resize(count - period);
  auto begin = loops_.end() - static_cast<std::ptrdiff_t>(period);
  LedgerLoop loop{begin->first, delta, 2, {begin, loops_.end()}};
  loops_.erase(begin, loops_.end());
  loops_.push_back(std::move(loop));
  return true;
}

absl::StatusOr<VersionLedger> VersionLedger::FromLoops(std::vector<LedgerLoop> loops,
                                                       int64_t omitted) {
  if (loops.size() > kMaxLoops)
    return InvalidArgument("found {} loops, expected at most {}", loops.size(), kMaxLoops);
  if (omitted < 0) return InvalidArgument("found {} omitted entries", omitted);
  VersionLedger ledger;
  for (const LedgerLoop& loop : loops) {
    PD_ASSIGN_OR_RETURN(int64_t entries, CheckLoop(loop, 1, kMaxMicrobatches - ledger.size_));
    ledger.size_ += entries;
  }
  ledger.loops_ = std::move(loops);
  ledger.omitted_ = omitted;
  return ledger;
}

absl::StatusOr<RunLedger> MergeLedgers(std::vector<StageLedger> stages) {
  auto key = [](const StageLedger& s) { return Peer{s.stage, s.replica}; };
  std::ranges::sort(stages, {}, key);
  auto twice = std::ranges::adjacent_find(stages, {}, key);
  if (twice != stages.end())
    return InvalidArgument("stage {} replica {} has two ledgers", twice->stage, twice->replica);
  return RunLedger{std::move(stages)};
}

bool KeepsDigest(int64_t version, int64_t updates) {
  constexpr int64_t kFirst = 5;  // versions 0 to 4
  constexpr int64_t kBetween = kMaxDigests - kFirst - 1;
  const int64_t every = std::max<int64_t>(1, (updates + kBetween - 1) / kBetween);
  return version < kFirst || version == updates || version % every == 0;
}

VersionLedger LedgerOf(const StageProgram& program, int chunk, const IsFilled& filled) {
  VersionLedger ledger;
  const StageId stage = program.stages()[chunk];
  std::vector<LedgerEntry> in_flight(program.needs[chunk].slots);
  for (ProgramCursor cursor(program); !cursor.done(); cursor.Next()) {
    const Instruction i = cursor.Get();
    if (i.chunk != chunk || !IsCompute(i.op) || i.op == Op::kEvaluate) continue;
    if (!filled(i.microbatch)) continue;
    LedgerEntry& entry = in_flight[i.slot];
    const int64_t version = i.version.value();
    if (i.op == Op::kForward) entry = {i.microbatch.value(), version};
    if (i.op == Op::kBackward || i.op == Op::kBackwardInput) entry.backward = version;
    if (i.op != Op::kBackward && i.op != Op::kBackwardWeight) continue;
    entry.weight = version;
    entry.update = UpdateOf(program.shape, program.policy, stage, i.microbatch);
    ledger.Append(entry);
  }
  return ledger;
}

}  // namespace pipedream
