#include "common/schedule/schedule_table.h"

#include <algorithm>
#include <numeric>

#include "common/base/status.h"

namespace pipedream {

int ScheduleTable::WorkerIndex(StageId stage, ReplicaId replica) const {
  return std::accumulate(shape.replicas.begin(), shape.replicas.begin() + stage.value(),
                         replica.value());
}

absl::Status Validate(const ScheduleShape& shape) {
  if (shape.replicas.empty()) return InvalidArgument("replicas: expected at least one stage");
  for (int s = 0; s < shape.stages(); ++s) {
    if (shape.replicas[s] < 1) {
      return InvalidArgument("replicas: stage {} has {}, expected at least 1", s,
                             shape.replicas[s]);
    }
  }
  auto positive = [](std::string_view field, int64_t value) {
    return value >= 1 ? absl::OkStatus()
                      : InvalidArgument("{}: {}, expected at least 1", field, value);
  };
  PD_RETURN_IF_ERROR(positive("minibatches_per_epoch", shape.minibatches_per_epoch));
  PD_RETURN_IF_ERROR(positive("epochs", shape.epochs));
  PD_RETURN_IF_ERROR(positive("microbatches_per_minibatch", shape.microbatches_per_minibatch));
  if (shape.evaluation_microbatches < 0) {
    return InvalidArgument("evaluation_microbatches: {}, expected at least 0",
                           shape.evaluation_microbatches);
  }
  auto count = [&](int64_t per_epoch) { return static_cast<double>(per_epoch) * shape.epochs; };
  double total = count(shape.minibatches_per_epoch) * shape.microbatches_per_minibatch +
                 count(shape.evaluation_microbatches);
  if (total > static_cast<double>(kMaxMicrobatches)) {
    return InvalidArgument(
        "the run has {:.0f} microbatches, expected at most {}: use larger batches "
        "or fewer epochs",
        total, kMaxMicrobatches);
  }
  if (!shape.warmup.empty() && shape.warmup.size() != shape.replicas.size()) {
    return InvalidArgument("warmup: {} numbers for {} stages, expected one per stage or none",
                           shape.warmup.size(), shape.replicas.size());
  }
  for (int depth : shape.warmup) {
    if (depth < 0) return InvalidArgument("warmup: {}, expected at least 0", depth);
  }
  return absl::OkStatus();
}

ReplicaId ReplicaOf(const ScheduleShape& shape, StageId stage, MicrobatchId microbatch) {
  return ReplicaId(static_cast<int32_t>(microbatch.value() % shape.replicas[stage.value()]));
}

int WarmupDepth(const ScheduleShape& shape, StageId stage) {
  if (!shape.warmup.empty()) return shape.warmup[stage.value()];
  int workers = std::accumulate(shape.replicas.begin() + stage.value(), shape.replicas.end(), 0);
  return (workers - 1) / shape.replicas[stage.value()];
}

int64_t UpdateCount(const ScheduleShape& shape, WeightPolicy policy, StageId stage) {
  if (policy == WeightPolicy::kFlush) return shape.minibatches();
  int64_t replicas = shape.replicas[stage.value()];
  return (shape.microbatches() + replicas - 1) / replicas;
}

int64_t UpdateOf(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                 MicrobatchId microbatch) {
  return microbatch.value() / (policy == WeightPolicy::kFlush ? shape.microbatches_per_minibatch
                                                              : shape.replicas[stage.value()]);
}

WeightVersion EvaluationVersion(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                                int64_t epoch) {
  if (epoch + 1 >= shape.epochs) return WeightVersion(UpdateCount(shape, policy, stage));
  int64_t minibatches = (epoch + 1) * shape.minibatches_per_epoch;
  if (policy == WeightPolicy::kFlush) return WeightVersion(minibatches);
  return WeightVersion(minibatches * shape.microbatches_per_minibatch /
                       shape.replicas[stage.value()]);
}

}  // namespace pipedream
