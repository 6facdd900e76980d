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
  const ScheduleShape& shape;
  WeightPolicy policy;
  StageId stage;
  ReplicaId replica;
};

using Program = std::vector<Instruction>;

// R before each U of a replicated stage.
absl::StatusOr<Program> AddReductions(const WorkerContext& worker, Program program);

// N before each U if shape.global_norm. kInvalidArgument in stashing modes: their stages step at
// different times, so that there is no moment at which the norm of the whole gradient exists.
absl::StatusOr<Program> AddNorms(const WorkerContext& worker, Program program);

// The version of F, B, I, W, E and U. Flush: minibatch t reads version t. Stash: F reads the newest
// version, B the one that its F read. Evaluation reads EvaluationVersion(); where newer versions
// come before the last of its microbatches, P and Q keep it.
absl::StatusOr<Program> AssignVersions(const WorkerContext& worker, Program program);

// The activation slot of F, B, I and W: round robin, from 0 again whenever nothing is in flight, so
// that programs stay periodic.
absl::StatusOr<Program> AssignSlots(const WorkerContext& worker, Program program);

// Receives directly before the compute instruction that needs the message, sends directly after the
// one that makes it; between neighbour stages, from and to the replica that has the microbatch.
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
