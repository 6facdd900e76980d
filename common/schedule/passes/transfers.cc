#include "common/schedule/passes/passes.h"

namespace pipedream {
namespace {

// Whom one stage exchanges messages with.
struct Routes {
  std::vector<StageId> activation_from, activation_to, gradient_from, gradient_to;
};

std::vector<Routes> RoutesOf(const WorkerContext& worker) {
  std::vector<Routes> routes(worker.stages.size());
  for (const ScheduleEdge& edge : EdgesOf(worker.shape)) {
    for (size_t chunk = 0; chunk < routes.size(); ++chunk) {
      Routes& own = routes[chunk];
      if (worker.stages[chunk].value() == edge.from) {
        own.activation_to.emplace_back(edge.to);
        if (edge.gradient) own.gradient_from.emplace_back(edge.to);
      }
      if (worker.stages[chunk].value() == edge.to) {
        own.activation_from.emplace_back(edge.from);
        if (edge.gradient) own.gradient_to.emplace_back(edge.from);
      }
    }
  }
  return routes;
}

}  // namespace

absl::StatusOr<Program> AddTransfers(const WorkerContext& worker, Program program) {
  const std::vector<Routes> routes = RoutesOf(worker);
  Program result;
  result.reserve(program.size() * 7 / 3 + 8);
  auto transfer = [&](Op op, const Instruction& cause, const std::vector<StageId>& stages) {
    for (StageId stage : stages) {
      result.push_back({.op = op,
                        .microbatch = cause.microbatch,
                        .peer = {stage, ReplicaOf(worker.shape, stage, cause.microbatch)},
                        .chunk = cause.chunk});
    }
  };
  for (const Instruction& instruction : program) {
    const Op op = instruction.op;
    const Routes& own = routes[instruction.chunk];
    const bool backward = op == Op::kBackward || op == Op::kBackwardInput;
    if (op == Op::kForward) transfer(Op::kReceiveActivation, instruction, own.activation_from);
    if (op == Op::kEvaluate) transfer(Op::kReceiveEvaluation, instruction, own.activation_from);
    if (backward) transfer(Op::kReceiveGradient, instruction, own.gradient_from);
    result.push_back(instruction);
    if (op == Op::kForward) transfer(Op::kSendActivation, instruction, own.activation_to);
    if (op == Op::kEvaluate) transfer(Op::kSendEvaluation, instruction, own.activation_to);
    if (backward) transfer(Op::kSendGradient, instruction, own.gradient_to);
  }
  return result;
}

}  // namespace pipedream
