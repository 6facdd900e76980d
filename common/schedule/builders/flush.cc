#include <algorithm>

#include "common/base/status.h"
#include "common/schedule/builders/builders.h"

namespace pipedream {

absl::Status CheckFlush(const ScheduleShape& shape) {
  return CheckOneStagePerDevice(shape, "this one");
}

std::vector<Instruction> EmitFlush(const ScheduleShape& shape, StageId stage, ReplicaId replica,
                                   int64_t depth) {
  std::vector<Instruction> program;
  program.reserve(2 * (shape.microbatches() / shape.replicas[stage.value()] + 1) +
                  shape.minibatches());
  MinibatchUpdates updates(shape, WeightPolicy::kFlush, {stage, replica}, &program);
  for (int64_t t = 0; t < shape.minibatches(); ++t) {
    const OwnMicrobatches own = OwnOf(shape, stage, replica, t);
    const int64_t ahead = std::min(depth, own.count);
    for (int64_t k = 0; k < own.count + ahead; ++k) {
      if (k < own.count) program.push_back({.op = Op::kForward, .microbatch = own[k]});
      if (k >= ahead) program.push_back({.op = Op::kBackward, .microbatch = own[k - ahead]});
    }
    updates.Update(t);
  }
  return program;
}

}  // namespace pipedream
