// From compute instructions to a complete program, step by step. A pass looks at one worker at a
// time: everything it adds follows from that worker's program and the shape of the run, so a long
// run can be lowered worker by worker.
#pragma once

#include <absl/status/statusor.h>

#include <span>
#include <string_view>
#include <vector>

#include "common/schedule/schedule_table.h"

namespace pipedream {

// Whose program a pass works on. Borrows the shape.
struct WorkerContext {
  WorkerContext(const ScheduleShape& run, WeightPolicy weights, const Peer& worker)
      : shape(run),
        policy(weights),
        replica(worker.replica),
        stages(StagesOn(run, DeviceOf(run, worker.stage))) {}

  const ScheduleShape& shape;
  WeightPolicy policy;
  ReplicaId replica;
  std::vector<StageId> stages;  // by chunk
};

using Program = std::vector<Instruction>;

// What updates wait for, directly behind the last backward that they cover: R for a replicated
// stage, T for a worker with tied stages once all of these are ready, N for norm k once all stages
// of the worker are. A replica without a microbatch in an update reduces before the update itself.
absl::StatusOr<Program> AddCollectives(const WorkerContext& worker, Program program);

// The version of F, B, I, W, E and U, as the policy's formulas say (weight_policy.h). P and Q keep
// a version that is read again after a newer one has come, or that an update may be taken back to.
absl::StatusOr<Program> AssignVersions(const WorkerContext& worker, Program program);

// The activation slot of F, B, I and W: round robin, from 0 again whenever nothing is in flight, so
// that programs stay periodic.
absl::StatusOr<Program> AssignSlots(const WorkerContext& worker, Program program);

// Receives directly before the compute instruction that needs the messages, sends directly after
// the one that makes them; along the edges of the shape, from and to the replicas that have the
// microbatch.
absl::StatusOr<Program> AddTransfers(const WorkerContext& worker, Program program);

struct Pass {
  std::string_view name;
  absl::StatusOr<Program> (*run)(const WorkerContext& worker, Program program);
};
// The above, in the order in which they are to run.
std::span<const Pass> LoweringPasses();

// All of them on one worker's program.
absl::StatusOr<Program> LowerProgram(const WorkerContext& worker, Program program);
// One of them on every worker's program.
absl::StatusOr<ScheduleTable> ApplyPass(const Pass& pass, ScheduleTable table);

}  // namespace pipedream
