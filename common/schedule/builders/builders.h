// The schedules. Each is a pure function from a run's shape to one worker's compute instructions;
// registry.cc lists them. To add one: a file here, a line there.
#pragma once

#include <absl/status/status.h>

#include <string_view>
#include <vector>

#include "common/schedule/schedule_table.h"

namespace pipedream {

// In all: `stage` is the first stage of the worker's device. REQUIRES of every Emit: the Check of
// its schedule has passed.
using EmitFunction = std::vector<Instruction>(const ScheduleShape& shape, StageId stage,
                                              ReplicaId replica);

// --- Synchronous ---------------------------------------------------------------------------------

// Any m, also smaller than the number of stages; one stage per device.
absl::Status CheckFlush(const ScheduleShape& shape);
// 1F1B inside each minibatch, drained at its end (PipeDream-Flush; DAPPLE, arXiv 2007.01045).
EmitFunction EmitOneForwardOneBackward;
// All forwards of a minibatch, then all its backwards in the same order, so that gradients are
// summed as in 1f1b (GPipe, arXiv 1811.06965). shape.warmup has no bearing.
EmitFunction EmitGPipe;
// One microbatch after the other goes through all stages and back: nothing overlaps.
EmitFunction EmitSequential;
// The replicas of a single stage share out the microbatches of each minibatch.
absl::Status CheckDataParallel(const ScheduleShape& shape);

// Zero-bubble schedules (arXiv 2401.10241): backwards are split, and weight gradients fill the
// holes. H1 keeps as many activations as 1f1b, H2 about twice as many.
EmitFunction EmitZeroBubbleH1;
EmitFunction EmitZeroBubbleH2;

// Interleaved 1F1B (Megatron-LM, arXiv 2104.04473): device d of p has stages d, d + p, d + 2p ...;
// microbatches go in groups of p, the last of which may be smaller. All stages have equally many
// replicas; warm-up is part of the schedule.
absl::Status CheckInterleaved(const ScheduleShape& shape);
std::vector<int> PlaceInterleaved(int devices, int chunks);
EmitFunction EmitInterleaved;

// ZB-V (arXiv 2405.15362): device d of p has stages d and 2p - 1 - d; backwards are split. As
// interleaved otherwise.
absl::Status CheckZeroBubbleV(const ScheduleShape& shape);
std::vector<int> PlaceZeroBubbleV(int devices, int chunks);
EmitFunction EmitZeroBubbleV;

// --- Asynchronous: no drain, not even between epochs
// ------------------------------------------------

// 1F1B with weight stashing (PipeDream, SOSP 2019). m must be 1.
absl::Status CheckPipedream(const ScheduleShape& shape);
EmitFunction EmitPipedream;

// The same order; all stages read the version that stage 0 read. m must be 1, and no stage may run
// further ahead of its backwards than stage 0 does.
absl::Status CheckVerticalSync(const ScheduleShape& shape);
EmitFunction EmitVerticalSync;

// PipeDream-2BW (arXiv 2006.09503). Warm-up is at most the microbatches that a replica has of a
// minibatch. Where updates wait for other stages (global norm, tied parameters), the later stages
// put theirs off until the earlier ones have come, so that nobody waits.
absl::Status CheckDoubleBuffer(const ScheduleShape& shape);
EmitFunction EmitDoubleBuffer;

// One weight copy; an update after each minibatch of m microbatches, whatever is in flight (PACI,
// arXiv 2309.06332). Gradients of a microbatch may mix two versions.
absl::Status CheckPaci(const ScheduleShape& shape);
EmitFunction EmitPaci;

// --- What they share -----------------------------------------------------------------------------

// kInvalidArgument unless the shape is valid and every stage has a device of its own.
absl::Status CheckOneStagePerDevice(const ScheduleShape& shape, std::string_view schedule);
// kInvalidArgument unless besides every replica has a microbatch in every minibatch.
absl::Status CheckUpdatePerMinibatch(const ScheduleShape& shape, std::string_view schedule);
// kInvalidArgument unless the shape is valid, placed as `device_of` says, has no warm-up and equal
// replicas everywhere.
absl::Status CheckPlacement(const ScheduleShape& shape, const std::vector<int>& device_of,
                            std::string_view schedule);

// A replica's microbatches of one minibatch: first, first + stride, ... (`count` of them).
struct OwnMicrobatches {
  int64_t first = 0, stride = 1, count = 0;
  MicrobatchId operator[](int64_t k) const { return MicrobatchId(first + k * stride); }
};
OwnMicrobatches OwnOf(const ScheduleShape& shape, StageId stage, ReplicaId replica,
                      int64_t minibatch);

// What the flush schedules with one stage per device share: minibatch by minibatch, this replica's
// microbatches with `depth` forwards ahead of the backwards, then the update, and the evaluation
// after each epoch. A replica that has no microbatch of a minibatch still makes the update.
std::vector<Instruction> EmitFlush(const ScheduleShape& shape, StageId stage, ReplicaId replica,
                                   int64_t depth);

// What the asynchronous schedules share, by stage.
struct AsyncRule {
  WeightPolicy policy = WeightPolicy::kStash;
  std::vector<int64_t> depth;  // forwards of a replica ahead of its backwards
  std::vector<int64_t> delay;  // backwards of a replica between an update's last one and the update
};
std::vector<Instruction> EmitAsynchronous(const ScheduleShape& shape, StageId stage,
                                          ReplicaId replica, const AsyncRule& rule);

// The updates of a synchronous schedule, minibatch by minibatch, for all the worker's stages, and
// the evaluation after each epoch. Where the policy is speculative and there is a global norm,
// updates are validated as late as may be: after the next minibatch's first forwards.
class MinibatchUpdates {
 public:
  // Borrows the shape.
  MinibatchUpdates(const ScheduleShape& shape, WeightPolicy policy, const Peer& worker,
                   std::vector<Instruction>* program)
      : shape_(shape),
        speculative_(policy == WeightPolicy::kSpeculative && shape.global_norm),
        worker_(worker),
        program_(*program) {}
  // Before a backward.
  void Validate();
  // After the last backward of a minibatch.
  void Update(int64_t minibatch);

 private:
  const ScheduleShape& shape_;
  const bool speculative_;
  const Peer worker_;
  std::vector<Instruction>& program_;
  int64_t made_ = -1;  // not yet validated; -1: none
};

// The worker's evaluation microbatches of `epoch`, in an order in which they flow through all
// stages: microbatch j is at stage s in step j + s.
void AppendEvaluation(const ScheduleShape& shape, StageId stage, ReplicaId replica, int64_t epoch,
                      std::vector<Instruction>& program);

}  // namespace pipedream
