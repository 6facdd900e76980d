#include "common/base/status.h"
#include "common/schedule/passes/passes.h"

namespace pipedream {
namespace {

Program InsertBeforeSteps(Op op, const Program& program) {
  Program result;
  result.reserve(program.size() + program.size() / 2);
  for (const Instruction& instruction : program) {
    if (instruction.op == Op::kStep) {
      result.push_back({.op = op, .microbatch = instruction.microbatch});
    }
    result.push_back(instruction);
  }
  return result;
}

}  // namespace

absl::StatusOr<Program> AddReductions(const WorkerContext& worker, Program program) {
  if (worker.shape.replicas[worker.stage.value()] == 1) return program;
  return InsertBeforeSteps(Op::kReduce, program);
}

absl::StatusOr<Program> AddNorms(const WorkerContext& worker, Program program) {
  if (!worker.shape.global_norm) return program;
  if (worker.policy != WeightPolicy::kFlush) {
    return InvalidArgument(
        "global_norm: clipping by the norm of the whole gradient needs a flush schedule (1f1b, "
        "gpipe): with weight stashing each stage steps at its own time, so no moment has the whole "
        "gradient. Turn clipping off or choose a flush schedule");
  }
  return InsertBeforeSteps(Op::kNorm, program);
}

}  // namespace pipedream
