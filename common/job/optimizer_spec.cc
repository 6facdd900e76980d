#include "common/job/optimizer_spec.h"

#include <cmath>
#include <numbers>

#include "common/base/status.h"

namespace pipedream {
namespace {

absl::Status RequireNonNegative(std::string_view field, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return InvalidArgument("{} is {}; it must be a number of at least 0", field, value);
}

absl::Status RequireBelowOne(std::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return InvalidArgument("{} is {}; it must be at least 0 and below 1", field, value);
}

}  // namespace

std::string_view ToString(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return "sgd";
    case OptimizerKind::kAdam:
      return "adam";
    case OptimizerKind::kAdamW:
      return "adamw";
  }
  return "unknown";
}

std::string_view ToString(LrScheduleKind kind) {
  switch (kind) {
    case LrScheduleKind::kConstant:
      return "constant";
    case LrScheduleKind::kStep:
      return "step";
    case LrScheduleKind::kCosine:
      return "cosine";
  }
  return "unknown";
}

absl::Status Validate(const OptimizerSpec& spec) {
  PD_RETURN_IF_ERROR(RequireNonNegative("optimizer.weight_decay", spec.weight_decay));
  PD_RETURN_IF_ERROR(RequireNonNegative("optimizer.clip_norm", spec.clip_norm));
  PD_RETURN_IF_ERROR(RequireBelowOne("optimizer.momentum", spec.momentum));
  if (spec.kind == OptimizerKind::kSgd) {
    if (spec.nesterov && spec.momentum == 0) {
      return InvalidArgument("optimizer.nesterov needs optimizer.momentum above 0, which is 0");
    }
    return absl::OkStatus();
  }
  if (spec.momentum != 0 || spec.nesterov) {
    return InvalidArgument(
        "optimizer.momentum and optimizer.nesterov belong to sgd; {} has optimizer.beta1",
        ToString(spec.kind));
  }
  PD_RETURN_IF_ERROR(RequireBelowOne("optimizer.beta1", spec.beta1));
  PD_RETURN_IF_ERROR(RequireBelowOne("optimizer.beta2", spec.beta2));
  if (!(std::isfinite(spec.epsilon) && spec.epsilon > 0)) {
    return InvalidArgument("optimizer.epsilon is {}; it must be a number above 0", spec.epsilon);
  }
  return absl::OkStatus();
}

absl::Status Validate(const LrSchedule& schedule) {
  PD_RETURN_IF_ERROR(RequireNonNegative("lr.base", schedule.base));
  if (schedule.warmup < 0) {
    return InvalidArgument("lr.warmup is {}; it must be a number of updates of at least 0",
                           schedule.warmup);
  }
  if (schedule.kind == LrScheduleKind::kStep) {
    if (schedule.step_every < 1) {
      return InvalidArgument("lr.step_every is {}; a step schedule needs at least 1 update",
                             schedule.step_every);
    }
    if (!(schedule.gamma > 0 && schedule.gamma <= 1)) {
      return InvalidArgument("lr.gamma is {}; it must be above 0 and at most 1", schedule.gamma);
    }
  }
  if (schedule.kind == LrScheduleKind::kCosine && schedule.total <= schedule.warmup) {
    return InvalidArgument(
        "lr.total is {}; a cosine schedule needs more updates than its {} of "
        "warm-up",
        schedule.total, schedule.warmup);
  }
  return absl::OkStatus();
}

double LearningRate(const LrSchedule& schedule, int64_t update) {
  if (update < schedule.warmup) {
    return schedule.base * static_cast<double>(update + 1) / static_cast<double>(schedule.warmup);
  }
  switch (schedule.kind) {
    case LrScheduleKind::kConstant:
      return schedule.base;
    case LrScheduleKind::kStep:
      return schedule.base *
             std::pow(schedule.gamma, static_cast<double>(update / schedule.step_every));
    case LrScheduleKind::kCosine: {
      if (update >= schedule.total) return 0;
      const double progress = static_cast<double>(update - schedule.warmup) /
                              static_cast<double>(schedule.total - schedule.warmup);
      return schedule.base * (1 + std::cos(std::numbers::pi * progress)) / 2;
    }
  }
  return schedule.base;
}

}  // namespace pipedream
