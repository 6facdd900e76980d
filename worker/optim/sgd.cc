// SGD: d = g + weight_decay * w; v = momentum * v + d; w -= lr * v, or lr * (d + momentum * v) with
// Nesterov. With v zero at first, the first v is d, as PyTorch has it.
#include "common/base/status.h"
#include "worker/optim/update_rules.h"

namespace pipedream {
namespace {

struct SgdNumbers {
  float scale, decay, momentum, rate;
};

PD_UPDATE_LOOP float PlainLoop(const float* w, const float* g, float* out, int64_t n,
                               SgdNumbers k) {
  float zeros = 0;
#pragma omp simd reduction(+ : zeros)
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * k.scale;
    zeros += gradient * 0.0f;
    out[i] = w[i] - k.rate * (gradient + k.decay * w[i]);
  }
  return zeros;
}

PD_UPDATE_LOOP float MomentumLoop(const float* w, const float* g, float* v, float* out, int64_t n,
                                  SgdNumbers k) {
  float zeros = 0;
#pragma omp simd reduction(+ : zeros)
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * k.scale;
    zeros += gradient * 0.0f;
    v[i] = k.momentum * v[i] + (gradient + k.decay * w[i]);
    out[i] = w[i] - k.rate * v[i];
  }
  return zeros;
}

PD_UPDATE_LOOP float NesterovLoop(const float* w, const float* g, float* v, float* out, int64_t n,
                                  SgdNumbers k) {
  float zeros = 0;
#pragma omp simd reduction(+ : zeros)
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * k.scale;
    zeros += gradient * 0.0f;
    const float d = gradient + k.decay * w[i];
    v[i] = k.momentum * v[i] + d;
    out[i] = w[i] - k.rate * (d + k.momentum * v[i]);
  }
  return zeros;
}

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerSpec& spec) : spec_(spec) {
    if (spec.momentum != 0) state_.push_back("momentum");
  }
  const std::vector<std::string>& state_tensors() const override { return state_; }

  bool Update(const UpdateArguments& a) const override {
    PIPEDREAM_CHECK(a.state.size() == state_.size());
    const auto n = static_cast<int64_t>(a.weights.size());
    const SgdNumbers k{static_cast<float>(a.gradient_scale), static_cast<float>(spec_.weight_decay),
                       static_cast<float>(spec_.momentum), static_cast<float>(a.learning_rate)};
    const float *w = a.weights.data(), *g = a.gradient.data();
    float* out = a.new_weights.data();
    if (state_.empty()) return StaysFinite(PlainLoop(w, g, out, n, k));
    float* v = a.state[0].data();
    return StaysFinite(spec_.nesterov ? NesterovLoop(w, g, v, out, n, k)
                                      : MomentumLoop(w, g, v, out, n, k));
  }

 private:
  const OptimizerSpec spec_;
  std::vector<std::string> state_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const OptimizerSpec& spec) {
  return std::make_unique<Sgd>(spec);
}

}  // namespace pipedream
