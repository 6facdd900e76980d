// A schedule: for every (stage, replica) the list of its instructions, in order.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/schedule/instruction.h"

namespace pipedream {

// The run that a schedule serves, in microbatches. (Samples belong to RunShape in common/job.)
struct ScheduleShape {
  std::vector<int> replicas;  // r_s per stage, all >= 1
  int64_t minibatches_per_epoch = 1;
  int64_t epochs = 1;
  int microbatches_per_minibatch = 1;   // m; 1 in the modes that step per microbatch
  int64_t evaluation_microbatches = 0;  // after each epoch; 0: none
  // Forwards before the first backward, per stage (per replica); empty: the schedule's own rule.
  std::vector<int> warmup;
  // The optimizer clips by the global norm: a Norm precedes every Step.
  bool global_norm = false;

  int stages() const { return static_cast<int>(replicas.size()); }
  int64_t minibatches() const { return minibatches_per_epoch * epochs; }
  int64_t microbatches() const { return minibatches() * microbatches_per_minibatch; }
  bool operator==(const ScheduleShape&) const = default;
};

// How versions and updates relate to microbatches; decides what the validator demands.
enum class WeightPolicy {
  kFlush,  // synchronous: every microbatch of minibatch t reads version t
  kStash,  // B reads the version its F read; an update after every round of r_s microbatches
};

struct ScheduleTable {
  std::string name;  // "pipedream", "1f1b", "gpipe", ...
  WeightPolicy policy = WeightPolicy::kStash;
  ScheduleShape shape;
  // programs[WorkerIndex(s, r)]; stage-major.
  std::vector<std::vector<Instruction>> programs;

  int WorkerIndex(StageId stage, ReplicaId replica) const;
  int workers() const { return static_cast<int>(programs.size()); }
  bool operator==(const ScheduleTable&) const = default;
};

// kInvalidArgument names the field: at least one stage, replicas and counts >= 1, evaluation
// microbatches >= 0, warm-up empty or one number >= 0 per stage, at most kMaxMicrobatches.
absl::Status Validate(const ScheduleShape& shape);
inline constexpr int64_t kMaxMicrobatches = int64_t{1} << 24;

// The replica of `stage` that handles microbatch i, forward and backward: i mod r_s. Evaluation
// microbatches alike.
ReplicaId ReplicaOf(const ScheduleShape& shape, StageId stage, MicrobatchId microbatch);

// Forwards of one replica before its first backward, where the schedule has a free choice:
// shape.warmup, or the rule floor((workers in stages >= s, less 1) / r_s), which lets every stage
// work all the time when transfers cost nothing. It is also the staleness of stashed weights.
int WarmupDepth(const ScheduleShape& shape, StageId stage);

// Updates that `stage` makes in the whole run: one per minibatch (flush), or one per round of r_s
// microbatches, the last of which may be partial (stash).
int64_t UpdateCount(const ScheduleShape& shape, WeightPolicy policy, StageId stage);
// The update that the gradient of `microbatch` enters.
int64_t UpdateOf(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                 MicrobatchId microbatch);
// What evaluation number `epoch` reads: the weights after the epoch's updates. In stashing modes a
// round that straddles the epoch's end is not in them (floor(N / r_s) after N microbatches), except
// at the end of the run, where the final weights are read.
WeightVersion EvaluationVersion(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                                int64_t epoch);

// Text form: a header line, then one line per (stage, replica); parse is the inverse of format and
// names line and column of the first fault.
std::string FormatTable(const ScheduleTable& table);
absl::StatusOr<ScheduleTable> ParseTable(std::string_view text);

}  // namespace pipedream
