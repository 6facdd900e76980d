// The schedules. Each is a pure function from a run's shape to one worker's compute instructions;
// registry.cc lists them. To add one: a file here, a line there.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "common/schedule/schedule_table.h"

namespace pipedream {

// Asynchronous 1F1B with weight stashing; no drain between epochs. m must be 1.
absl::Status CheckPipedream(const ScheduleShape& shape);
std::vector<Instruction> EmitPipedream(const ScheduleShape& shape, StageId stage,
                                       ReplicaId replica);

// 1F1B inside each minibatch, drained at its end. Any m, also smaller than the number of stages.
absl::Status CheckFlush(const ScheduleShape& shape);
std::vector<Instruction> EmitOneForwardOneBackward(const ScheduleShape& shape, StageId stage,
                                                   ReplicaId replica);

// All forwards of a minibatch, then all its backwards in the same order, so that gradients are
// summed as in 1f1b. shape.warmup has no bearing.
std::vector<Instruction> EmitGPipe(const ScheduleShape& shape, StageId stage, ReplicaId replica);

// What the flush schedules share: minibatch by minibatch, this replica's microbatches with `depth`
// forwards ahead of the backwards, then the update, and the evaluation after each epoch. A replica
// that has no microbatch of a minibatch still makes the update.
std::vector<Instruction> EmitFlush(const ScheduleShape& shape, StageId stage, ReplicaId replica,
                                   int64_t depth);

// Appends this replica's evaluation microbatches of `epoch`.
void AppendEvaluation(const ScheduleShape& shape, StageId stage, ReplicaId replica, int64_t epoch,
                      std::vector<Instruction>& program);

}  // namespace pipedream
