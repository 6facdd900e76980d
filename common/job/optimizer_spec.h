// Optimizer and learning rate of a job, as values. Formulas: PyTorch's, as docs/training.md states.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string_view>

namespace pipedream {

enum class OptimizerKind { kSgd, kAdam, kAdamW };
std::string_view ToString(OptimizerKind kind);   // "sgd", "adam", "adamw"

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;   // clip by the whole model's gradient norm; 0: never
  bool operator==(const OptimizerSpec&) const = default;
};

enum class LrScheduleKind { kConstant, kStep, kCosine };
std::string_view ToString(LrScheduleKind kind);  // "constant", "step", "cosine"

struct LrSchedule {
  LrScheduleKind kind = LrScheduleKind::kConstant;
  double base = 0.01;
  int64_t warmup = 0;      // updates of linear warm-up: base * (k + 1) / warmup (any kind)
  int64_t step_every = 0;  // kStep: base * gamma ^ (k div step_every)
  double gamma = 0.1;
  int64_t total = 0;       // kCosine: reaches 0 at this update
  bool operator==(const LrSchedule&) const = default;
};

// kInvalidArgument names the field, its value and what is allowed.
absl::Status Validate(const OptimizerSpec& spec);
absl::Status Validate(const LrSchedule& schedule);

// Rate of update k = 0, 1, ...: kCosine is base * (1 + cos(pi (k - warmup) / (total - warmup))) / 2
// after warm-up.
double LearningRate(const LrSchedule& schedule, int64_t update);

}  // namespace pipedream
