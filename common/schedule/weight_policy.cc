#include "common/schedule/weight_policy.h"

#include <algorithm>
#include <numeric>

namespace pipedream {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Microbatches that stage 0 has taken in and not given back when the pipeline is full.
int64_t InFlight(const ScheduleShape& shape) {
  return (int64_t{WarmupDepth(shape, StageId(0))} + 1) * shape.replicas[0];
}

}  // namespace

bool IsSynchronous(WeightPolicy policy) {
  return policy == WeightPolicy::kFlush || policy == WeightPolicy::kSpeculative;
}

bool StepsByRound(WeightPolicy policy) {
  return policy == WeightPolicy::kStash || policy == WeightPolicy::kVerticalSync;
}

int64_t UpdateSpan(const ScheduleShape& shape, WeightPolicy policy, StageId stage) {
  return StepsByRound(policy) ? shape.replicas[stage.value()] : shape.microbatches_per_minibatch;
}

int64_t UpdateCount(const ScheduleShape& shape, WeightPolicy policy, StageId stage) {
  return CeilDiv(shape.microbatches(), UpdateSpan(shape, policy, stage));
}

int64_t UpdateOf(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                 MicrobatchId microbatch) {
  return microbatch.value() / UpdateSpan(shape, policy, stage);
}

std::optional<WeightVersion> ForwardVersion(const ScheduleShape& shape, WeightPolicy policy,
                                            StageId stage, MicrobatchId microbatch) {
  switch (policy) {
    case WeightPolicy::kStash:
    case WeightPolicy::kSingle:
      return std::nullopt;
    case WeightPolicy::kFlush:
    case WeightPolicy::kSpeculative:
      return WeightVersion(UpdateOf(shape, policy, stage, microbatch));
    case WeightPolicy::kDoubleBuffer:
      return WeightVersion(std::max<int64_t>(0, UpdateOf(shape, policy, stage, microbatch) - 1));
    case WeightPolicy::kVerticalSync:
      break;
  }
  const int64_t first_replicas = shape.replicas[0];
  const int64_t rounds = microbatch.value() / first_replicas - WarmupDepth(shape, StageId(0));
  return WeightVersion(std::max<int64_t>(0, rounds) * first_replicas /
                       shape.replicas[stage.value()]);
}

bool BackwardReadsForwardVersion(WeightPolicy policy) { return policy != WeightPolicy::kSingle; }

int64_t StalenessBound(const ScheduleShape& shape, WeightPolicy policy, StageId stage) {
  switch (policy) {
    case WeightPolicy::kFlush:
    case WeightPolicy::kSpeculative:
      return 0;
    case WeightPolicy::kDoubleBuffer:
      return 1;
    case WeightPolicy::kStash:
      return WarmupDepth(shape, stage);
    case WeightPolicy::kVerticalSync:
      return CeilDiv(InFlight(shape), shape.replicas[stage.value()]);
    case WeightPolicy::kSingle:
      break;
  }
  return CeilDiv(int64_t{WarmupDepth(shape, stage)} * shape.replicas[stage.value()],
                 shape.microbatches_per_minibatch);
}

WeightVersion EvaluationVersion(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                                int64_t epoch) {
  if (epoch + 1 >= shape.epochs) return WeightVersion(UpdateCount(shape, policy, stage));
  int64_t microbatches =
      (epoch + 1) * shape.minibatches_per_epoch * shape.microbatches_per_minibatch;
  return WeightVersion(microbatches / UpdateSpan(shape, policy, stage));
}

int64_t NormSpan(const ScheduleShape& shape, WeightPolicy policy) {
  if (!StepsByRound(policy)) return shape.microbatches_per_minibatch;
  int64_t span = 1;
  for (int r : shape.replicas) span = std::min(std::lcm(span, int64_t{r}), kMaxMicrobatches);
  return span;
}

int64_t NormCount(const ScheduleShape& shape, WeightPolicy policy) {
  return CeilDiv(shape.microbatches(), NormSpan(shape, policy));
}

int64_t UpdateOfNorm(const ScheduleShape& shape, WeightPolicy policy, StageId stage, int64_t norm) {
  const int64_t end = std::min((norm + 1) * NormSpan(shape, policy), shape.microbatches());
  return CeilDiv(end, UpdateSpan(shape, policy, stage)) - 1;
}

int64_t NormLag(const ScheduleShape& shape, WeightPolicy policy) {
  if (policy != WeightPolicy::kSingle && !StepsByRound(policy)) return 0;
  return CeilDiv(InFlight(shape), NormSpan(shape, policy));
}

int64_t NormOf(const ScheduleShape& shape, WeightPolicy policy, StageId stage, int64_t update) {
  const int64_t own = update * UpdateSpan(shape, policy, stage) / NormSpan(shape, policy);
  const int64_t norm = std::max<int64_t>(0, own - NormLag(shape, policy));
  return norm == own && update < UpdateOfNorm(shape, policy, stage, norm) ? kNoNorm : norm;
}

}  // namespace pipedream
