#include "common/base/status.h"
#include "common/schedule/builders/builders.h"

namespace pipedream {
namespace {

absl::Status CheckStepPerMicrobatch(const ScheduleShape& shape, std::string_view schedule) {
  PD_RETURN_IF_ERROR(CheckOneStagePerDevice(shape, schedule));
  if (shape.microbatches_per_minibatch == 1) return absl::OkStatus();
  return InvalidArgument(
      "microbatches_per_minibatch: {}, but schedule '{}' makes an update after every microbatch "
      "and "
      "takes 1 only: use 1, or another schedule (2bw, 1f1b, gpipe)",
      shape.microbatches_per_minibatch, schedule);
}

std::vector<Instruction> Emit(const ScheduleShape& shape, StageId stage, ReplicaId replica,
                              WeightPolicy policy) {
  AsyncRule rule{.policy = policy, .depth = {}, .delay = {}};
  for (int s = 0; s < shape.stages(); ++s) rule.depth.push_back(WarmupDepth(shape, StageId(s)));
  rule.delay.resize(shape.stages());
  return EmitAsynchronous(shape, stage, replica, rule);
}

}  // namespace

absl::Status CheckPipedream(const ScheduleShape& shape) {
  return CheckStepPerMicrobatch(shape, "pipedream");
}

std::vector<Instruction> EmitPipedream(const ScheduleShape& shape, StageId stage,
                                       ReplicaId replica) {
  return Emit(shape, stage, replica, WeightPolicy::kStash);
}

absl::Status CheckVerticalSync(const ScheduleShape& shape) {
  PD_RETURN_IF_ERROR(CheckStepPerMicrobatch(shape, "pipedream_vsync"));
  const int64_t first = int64_t{WarmupDepth(shape, StageId(0))} * shape.replicas[0];
  for (int s = 1; s < shape.stages(); ++s) {
    const int64_t ahead = int64_t{WarmupDepth(shape, StageId(s))} * shape.replicas[s];
    if (ahead <= first) continue;
    return InvalidArgument(
        "warmup: stage {} runs {} microbatches ahead of its backwards, stage 0 only {}: the "
        "version "
        "that 'pipedream_vsync' takes from stage 0 would not exist there yet",
        s, ahead, first);
  }
  return absl::OkStatus();
}

std::vector<Instruction> EmitVerticalSync(const ScheduleShape& shape, StageId stage,
                                          ReplicaId replica) {
  return Emit(shape, stage, replica, WeightPolicy::kVerticalSync);
}

absl::Status CheckPaci(const ScheduleShape& shape) {
  return CheckUpdatePerMinibatch(shape, "paci");
}

std::vector<Instruction> EmitPaci(const ScheduleShape& shape, StageId stage, ReplicaId replica) {
  return Emit(shape, stage, replica, WeightPolicy::kSingle);
}

}  // namespace pipedream
