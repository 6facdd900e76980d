#include "common/schedule/passes/passes.h"

namespace pipedream {
namespace {

class Router {
 public:
  explicit Router(const WorkerContext& worker) : worker_(worker) {}
  bool first() const { return worker_.stage.value() == 0; }
  bool last() const { return worker_.stage.value() + 1 == worker_.shape.stages(); }

  // A message from or to the stage before, or the stage after.
  Instruction Before(Op op, MicrobatchId microbatch) const { return Make(op, microbatch, -1); }
  Instruction After(Op op, MicrobatchId microbatch) const { return Make(op, microbatch, +1); }

 private:
  Instruction Make(Op op, MicrobatchId microbatch, int step) const {
    StageId stage = worker_.stage + step;
    return {.op = op,
            .microbatch = microbatch,
            .peer = {stage, ReplicaOf(worker_.shape, stage, microbatch)}};
  }
  const WorkerContext& worker_;
};

}  // namespace

absl::StatusOr<Program> AddTransfers(const WorkerContext& worker, Program program) {
  Router router(worker);
  Program result;
  result.reserve(program.size() * 7 / 3 + 8);
  for (const Instruction& instruction : program) {
    const Op op = instruction.op;
    const MicrobatchId i = instruction.microbatch;
    const bool backward = op == Op::kBackward || op == Op::kBackwardInput;
    if (op == Op::kForward && !router.first()) {
      result.push_back(router.Before(Op::kReceiveActivation, i));
    } else if (op == Op::kEvaluate && !router.first()) {
      result.push_back(router.Before(Op::kReceiveEvaluation, i));
    } else if (backward && !router.last()) {
      result.push_back(router.After(Op::kReceiveGradient, i));
    }
    result.push_back(instruction);
    if (op == Op::kForward && !router.last()) {
      result.push_back(router.After(Op::kSendActivation, i));
    } else if (op == Op::kEvaluate && !router.last()) {
      result.push_back(router.After(Op::kSendEvaluation, i));
    } else if (backward && !router.first()) {
      result.push_back(router.Before(Op::kSendGradient, i));
    }
  }
  return result;
}

}  // namespace pipedream
