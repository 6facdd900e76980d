// Which weights a run really used: per stage replica and training microbatch the version that its
// forward read, the ones that its backward read, and the update that its gradient entered. Written
// by executors while they train, compared afterwards with what the schedule promised
// (ledger_check.h). Which samples a microbatch held follows from its number and the run's shape.
#pragma once

#include <absl/status/statusor.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/schedule/stage_program.h"

namespace pipedream {

// One microbatch on one stage replica, noted when its gradient enters an update.
struct LedgerEntry {
  int64_t microbatch = 0;
  int64_t forward = 0;   // version that its forward read
  int64_t backward = 0;  // that its backward read; of a split one the input-gradient half
  int64_t weight = 0;    // that the weight-gradient half read; `backward` if it is not split
  int64_t update = 0;    // that its gradient entered
  auto operator<=>(const LedgerEntry&) const = default;

  friend LedgerEntry operator+(const LedgerEntry& a, const LedgerEntry& b) {
    return {a.microbatch + b.microbatch, a.forward + b.forward, a.backward + b.backward,
            a.weight + b.weight, a.update + b.update};
  }
  friend LedgerEntry operator*(const LedgerEntry& a, int64_t k) {
    return {a.microbatch * k, a.forward * k, a.backward * k, a.weight * k, a.update * k};
  }
  friend LedgerEntry operator-(const LedgerEntry& a, const LedgerEntry& b) { return a + b * -1; }
};

// `body`, or the one entry `first` where that is empty, `repeat` times; repetition k adds
// k * stride to every entry in it.
struct LedgerLoop {
  LedgerEntry first;  // the first entry of the first repetition
  LedgerEntry stride = {};
  int64_t repeat = 1;
  std::vector<LedgerLoop> body = {};
  bool operator==(const LedgerLoop&) const = default;

  int64_t entries() const;
};

// The entries of one stage replica, in the order in which they were noted, as nested loops: a
// steady run of any length takes some hundred bytes. Not thread-safe.
class VersionLedger {
 public:
  // Constant time; allocates nothing while the entries go on as before.
  void Append(const LedgerEntry& entry);

  // Calls `use(entry)` in order while it returns true; says whether it always did.
  template <typename F>
  bool ForEach(F&& use) const {
    for (const LedgerLoop& loop : loops_) {
      if (!Walk(loop, {}, use)) return false;
    }
    return true;
  }

  int64_t size() const { return size_; }
  // Entries that came after the ledger was full, and are not in it: a run without any regularity.
  int64_t omitted() const { return omitted_; }
  const std::vector<LedgerLoop>& loops() const { return loops_; }

  // A ledger to read. kInvalidArgument: more entries than a run can have, loops nested deeper or
  // numbers larger than Append makes them, or more than kMaxLoops.
  static absl::StatusOr<VersionLedger> FromLoops(std::vector<LedgerLoop> loops, int64_t omitted);

  bool operator==(const VersionLedger& other) const {
    return loops_ == other.loops_ && omitted_ == other.omitted_;
  }

  static constexpr size_t kMaxLoops = size_t{1} << 13;  // outermost ones
  static constexpr size_t kMaxPeriod = 16;              // loops in the body of one
  static constexpr int kMaxDepth = 5;

 private:
  template <typename F>
  static bool Walk(const LedgerLoop& loop, const LedgerEntry& offset, F& use) {
    for (int64_t k = 0; k < loop.repeat; ++k) {
      const LedgerEntry shift = offset + loop.stride * k;
      if (loop.body.empty()) {
        if (!use(loop.first + shift)) return false;
        continue;
      }
      for (const LedgerLoop& part : loop.body) {
        if (!Walk(part, shift, use)) return false;
      }
    }
    return true;
  }
  // Makes the last loops into one where they repeat.
  void Fold();
  bool Extend(size_t period);
  bool Begin(size_t period);

  std::vector<LedgerLoop> loops_;
  LedgerEntry last_;   // where the last loop is still growing
  bool open_ = false;  // it is, and has no body
  int64_t size_ = 0;
  int64_t omitted_ = 0;
};

// A hash of the parameters of a stage when they were at a version.
struct WeightDigest {
  int64_t version = 0;
  uint64_t hash = 0;
  bool operator==(const WeightDigest&) const = default;
};

struct StageLedger {
  StageId stage;
  ReplicaId replica;
  VersionLedger versions;
  std::vector<WeightDigest> digests;  // ascending versions
  bool operator==(const StageLedger&) const = default;
};

// Of all stage replicas, sorted.
struct RunLedger {
  std::vector<StageLedger> stages;
  bool operator==(const RunLedger&) const = default;
};

// Sorts. kInvalidArgument if a stage replica comes twice.
absl::StatusOr<RunLedger> MergeLedgers(std::vector<StageLedger> stages);

// Whether the digest of `version` is kept: of the first few, of the last and of every n-th
// between them, at most kMaxDigests in a run of `updates`.
bool KeepsDigest(int64_t version, int64_t updates);
inline constexpr int64_t kMaxDigests = 64;

// What the executor of `program` notes of its stage number `chunk`. `filled` says whether a
// microbatch holds samples; the others are not computed.
using IsFilled = std::function<bool(MicrobatchId)>;
VersionLedger LedgerOf(const StageProgram& program, int chunk, const IsFilled& filled);

// Text form: "stage S replica R", then a line per loop and per digest; parse is the inverse and
// names the line of the first fault. A loop is "i:f,b,w>u" (microbatch, versions, update) or
// "(LOOP LOOP ...)", then "*REPEAT+i:f,b,w>u" where it repeats.
std::string FormatLedger(const RunLedger& ledger);
absl::StatusOr<RunLedger> ParseLedger(std::string_view text);

}  // namespace pipedream
