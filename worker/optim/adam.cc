// Adam and AdamW, in PyTorch's form: w -= lr / (1 - b1^t) * a / (sqrt(b) / sqrt(1 - b2^t) + eps).
// Adam adds weight_decay * w to the gradient, AdamW shrinks w by lr * weight_decay first.
#include <cmath>

#include "common/base/status.h"
#include "worker/optim/update_rules.h"

namespace pipedream {
namespace {

struct AdamNumbers {
  float scale;         // of the gradient
  float decay;         // into the gradient (Adam)
  float shrink;        // of the weight (AdamW); 1 for Adam
  float beta1, rest1;  // rest: 1 - beta, rounded once
  float beta2, rest2;
  float rate;        // lr / (1 - beta1^t)
  float root_scale;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

PD_UPDATE_LOOP float AdamLoop(const float* w, const float* g, float* first, float* second,
                              float* out, int64_t n, AdamNumbers k) {
  float zeros = 0;
#pragma omp simd reduction(+ : zeros)
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * k.scale;
    zeros += gradient * 0.0f;
    const float d = gradient + k.decay * w[i];
    first[i] = k.beta1 * first[i] + k.rest1 * d;
    second[i] = k.beta2 * second[i] + k.rest2 * (d * d);
    const float root = __builtin_sqrtf(second[i]) * k.root_scale + k.epsilon;
    out[i] = k.shrink * w[i] - k.rate * (first[i] / root);
  }
  return zeros;
}

class Adam final : public Optimizer {
 public:
  explicit Adam(const OptimizerSpec& spec) : spec_(spec) {}
  const std::vector<std::string>& state_tensors() const override { return state_; }

  bool Update(const UpdateArguments& a) const override {
    PIPEDREAM_CHECK(a.state.size() == state_.size());
    const bool decoupled = spec_.kind == OptimizerKind::kAdamW;
    const auto t = static_cast<double>(a.step + 1);
    const AdamNumbers k{
        .scale = static_cast<float>(a.gradient_scale),
        .decay = decoupled ? 0.0f : static_cast<float>(spec_.weight_decay),
        .shrink = decoupled ? static_cast<float>(1 - a.learning_rate * spec_.weight_decay) : 1.0f,
        .beta1 = static_cast<float>(spec_.beta1),
        .rest1 = static_cast<float>(1 - spec_.beta1),
        .beta2 = static_cast<float>(spec_.beta2),
        .rest2 = static_cast<float>(1 - spec_.beta2),
        .rate = static_cast<float>(a.learning_rate / (1 - std::pow(spec_.beta1, t))),
        .root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(spec_.beta2, t))),
        .epsilon = static_cast<float>(spec_.epsilon),
    };
    return StaysFinite(AdamLoop(a.weights.data(), a.gradient.data(), a.state[0].data(),
                                a.state[1].data(), a.new_weights.data(),
                                static_cast<int64_t>(a.weights.size()), k));
  }

 private:
  const OptimizerSpec spec_;
  const std::vector<std::string> state_ = {"first_moment", "second_moment"};
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(const OptimizerSpec& spec) {
  return std::make_unique<Adam>(spec);
}

}  // namespace pipedream
