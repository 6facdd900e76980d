#include <algorithm>

#include "common/base/status.h"
#include "common/schedule/builders/builders.h"

namespace pipedream {
namespace {

// A replica's microbatches in a minibatch, at least. A version is read one minibatch after it was
// made, so no replica may have more than these in flight behind its backwards.
int64_t LeastOwn(const ScheduleShape& shape, int s) {
  return shape.microbatches_per_minibatch / shape.replicas[s];
}

AsyncRule RuleOf(const ScheduleShape& shape) {
  AsyncRule rule{.policy = WeightPolicy::kDoubleBuffer, .depth = {}, .delay = {}};
  for (int s = 0; s < shape.stages(); ++s) {
    int64_t depth = std::min<int64_t>(WarmupDepth(shape, StageId(s)), LeastOwn(shape, s));
    // No stage may wait for more than the one before it may send.
    if (s > 0) {
      depth = std::min(depth, rule.depth[s - 1] * shape.replicas[s - 1] / shape.replicas[s]);
    }
    rule.depth.push_back(depth);
  }
  const bool waits = shape.global_norm || !shape.tied_stages.empty();
  const int64_t first = rule.depth[0] * shape.replicas[0];
  for (int s = 0; s < shape.stages(); ++s) {
    // Stage 0 comes to its last backward of a minibatch so much later than this stage.
    const int64_t later = first / shape.replicas[s] - rule.depth[s];
    const int64_t most = LeastOwn(shape, s) - rule.depth[s];
    rule.delay.push_back(waits ? std::clamp<int64_t>(later, 0, most) : 0);
  }
  return rule;
}

}  // namespace

absl::Status CheckDoubleBuffer(const ScheduleShape& shape) {
  PD_RETURN_IF_ERROR(CheckUpdatePerMinibatch(shape, "2bw"));
  for (int s = 0; s < shape.stages() && !shape.warmup.empty(); ++s) {
    if (shape.warmup[s] <= LeastOwn(shape, s)) continue;
    return InvalidArgument(
        "warmup: {} at stage {}, but each of its {} replicas has only {} of a minibatch's {} "
        "microbatches: '2bw' cannot run further ahead than that. Use more microbatches",
        shape.warmup[s], s, shape.replicas[s], LeastOwn(shape, s),
        shape.microbatches_per_minibatch);
  }
  return absl::OkStatus();
}

std::vector<Instruction> EmitDoubleBuffer(const ScheduleShape& shape, StageId stage,
                                          ReplicaId replica) {
  return EmitAsynchronous(shape, stage, replica, RuleOf(shape));
}

}  // namespace pipedream
