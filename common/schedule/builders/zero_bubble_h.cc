#include <algorithm>

#include "common/schedule/builders/builders.h"

namespace pipedream {
namespace {

// depth(s) + 1 forwards; then an input gradient and, if any is left, a forward, turn about. Weight
// gradients wait while no more than depth(0) - depth(s) do: the later a stage, the longer its drain
// would be idle without them.
std::vector<Instruction> EmitSplit(const ScheduleShape& shape, StageId stage, ReplicaId replica,
                                   int64_t depth, int64_t depth_of_first) {
  const int64_t may_wait = std::max<int64_t>(0, depth_of_first - depth);
  std::vector<Instruction> program;
  MinibatchUpdates updates(shape, WeightPolicy::kSpeculative, {stage, replica}, &program);
  for (int64_t t = 0; t < shape.minibatches(); ++t) {
    const OwnMicrobatches own = OwnOf(shape, stage, replica, t);
    int64_t forwards = 0, weights = 0;
    while (forwards < std::min(depth + 1, own.count)) {
      program.push_back({.op = Op::kForward, .microbatch = own[forwards++]});
    }
    for (int64_t inputs = 0; inputs < own.count;) {
      updates.Validate();
      program.push_back({.op = Op::kBackwardInput, .microbatch = own[inputs++]});
      if (inputs - weights > may_wait) {
        program.push_back({.op = Op::kBackwardWeight, .microbatch = own[weights++]});
      }
      if (forwards < own.count) {
        program.push_back({.op = Op::kForward, .microbatch = own[forwards++]});
      }
    }
    while (weights < own.count) {
      program.push_back({.op = Op::kBackwardWeight, .microbatch = own[weights++]});
    }
    updates.Update(t);
  }
  return program;
}

}  // namespace

std::vector<Instruction> EmitZeroBubbleH1(const ScheduleShape& shape, StageId stage,
                                          ReplicaId replica) {
  return EmitSplit(shape, stage, replica, WarmupDepth(shape, stage),
                   WarmupDepth(shape, StageId(0)));
}

std::vector<Instruction> EmitZeroBubbleH2(const ScheduleShape& shape, StageId stage,
                                          ReplicaId replica) {
  const int64_t factor = shape.warmup.empty() ? 2 : 1;
  return EmitSplit(shape, stage, replica, factor * WarmupDepth(shape, stage),
                   factor * WarmupDepth(shape, StageId(0)));
}

}  // namespace pipedream
