// The run that a schedule serves: its stages, where they are, what they exchange, and how many
// microbatches go through them. (Samples belong to RunShape in common/job.)
#pragma once

#include <absl/status/status.h>

#include <compare>
#include <cstdint>
#include <vector>

#include "common/base/strong_int.h"
#include "common/schedule/instruction.h"

namespace pipedream {

// Tensors go from one stage to a later one in every microbatch.
struct ScheduleEdge {
  int from = 0, to = 0;
  bool gradient = true;  // and their gradients come back
  auto operator<=>(const ScheduleEdge&) const = default;
};

struct ScheduleShape {
  std::vector<int> replicas;  // r_s per stage, all >= 1
  int64_t minibatches_per_epoch = 1;
  int64_t epochs = 1;
  int microbatches_per_minibatch = 1;   // m; 1 in the modes that step per microbatch
  int64_t evaluation_microbatches = 0;  // after each epoch; 0: none
  // Forwards before the first backward, per stage (per replica); empty: the schedule's own rule.
  std::vector<int> warmup;
  // Updates look at the norm of the whole model's gradient: to clip it, or to skip them together.
  bool global_norm = false;
  // The device of each stage, 0 .. devices-1; empty: each stage has one of its own. The stages of a
  // device ("chunks") have equal numbers of replicas; replica q of all of them is one worker.
  std::vector<int> device_of;
  // Sorted; empty: every stage sends to the next one and gets a gradient back.
  std::vector<ScheduleEdge> edges;
  // Ascending; stages that hold copies of parameters that other stages hold too.
  std::vector<int> tied_stages;

  int stages() const { return static_cast<int>(replicas.size()); }
  int devices() const;
  int64_t minibatches() const { return minibatches_per_epoch * epochs; }
  int64_t microbatches() const { return minibatches() * microbatches_per_minibatch; }
  bool operator==(const ScheduleShape&) const = default;
};

inline constexpr int64_t kMaxMicrobatches = int64_t{1} << 24;

// kInvalidArgument names the field: at least one stage, replicas and counts >= 1, evaluation
// microbatches >= 0, warm-up empty or one number >= 0 per stage, at most kMaxMicrobatches; devices
// numbered without holes, edges between stages that exist.
absl::Status Validate(const ScheduleShape& shape);

// shape.edges, or the chain that empty edges stand for.
std::vector<ScheduleEdge> EdgesOf(const ScheduleShape& shape);

// The functions below REQUIRE a valid shape and stages that exist.
int DeviceOf(const ScheduleShape& shape, StageId stage);
// Ascending.
std::vector<StageId> StagesOn(const ScheduleShape& shape, int device);
// The position of `stage` in StagesOn its device.
int ChunkOf(const ScheduleShape& shape, StageId stage);

// A worker is named by the first stage of its device and its replica. All of them, device by
// device.
std::vector<Peer> WorkersOf(const ScheduleShape& shape);
// The position in WorkersOf of the worker that has this replica of the stage.
int WorkerIndex(const ScheduleShape& shape, const Peer& stage_replica);

// The replica of `stage` that handles microbatch i, forward and backward: i mod r_s. Evaluation
// microbatches alike.
ReplicaId ReplicaOf(const ScheduleShape& shape, StageId stage, MicrobatchId microbatch);

// Forwards of one replica before its first backward, where the schedule has a free choice:
// shape.warmup, or the rule floor((workers in stages >= s, less 1) / r_s), which lets every stage
// work all the time when transfers cost nothing. It is also the staleness of stashed weights.
int WarmupDepth(const ScheduleShape& shape, StageId stage);

}  // namespace pipedream
