#include "worker/engine/parameter_update.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace pipedream {

void ScaleInPlace(float* values, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) values[i] *= factor;
}

void AddScaled(float* sum, const float* values, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) sum[i] += factor * values[i];
}

void AddMicrobatchGradients(StageState& stage, int64_t update, bool first, float weight) {
  const size_t count = stage.layout.parameter_bytes / sizeof(float);
  float* sum = reinterpret_cast<float*>(stage.gradients(update));
  if (first) {
    if (weight != 1.0f) ScaleInPlace(sum, count, weight);
  } else {
    AddScaled(sum, reinterpret_cast<const float*>(stage.microbatch_gradients.data()), count,
              weight);
  }
}

namespace {

double SquaredNormOf(const StageState& stage, int64_t update, const StoredTensor& parameter) {
  const std::byte* base = stage.gradients(update);
  return SquaredNorm({reinterpret_cast<const float*>(base + parameter.offset),
                      parameter.spec.bytes / sizeof(float)});
}

}  // namespace

void SquaredNorms(const StageState& stage, int64_t update, std::span<double> norms) {
  for (size_t i = 0; i < stage.layout.parameters.size(); ++i) {
    const StoredTensor& p = stage.layout.parameters[i];
    if (!p.holders.empty()) continue;
    norms[stage.global_index[i]] = SquaredNormOf(stage, update, p);
  }
}

bool GradientsAreFinite(const StageState& stage, int64_t update) {
  return std::ranges::all_of(stage.layout.parameters, [&](const StoredTensor& p) {
    return std::isfinite(SquaredNormOf(stage, update, p));
  });
}

const StoredTensor* UpdateParameters(StageState& stage, int64_t update, const std::byte* from,
                                     std::byte* to, UpdateArguments* arguments,
                                     StepObserver* observer) {
  const StoredTensor* fault = nullptr;
  for (size_t i = 0; i < stage.layout.parameters.size(); ++i) {
    const StoredTensor& p = stage.layout.parameters[i];
    const size_t count = p.spec.bytes / sizeof(float);
    auto floats = [&](std::byte* base) {
      return std::span<float>(reinterpret_cast<float*>(base + p.offset), count);
    };
    arguments->weights = {reinterpret_cast<const float*>(from + p.offset), count};
    arguments->new_weights = floats(to);
    arguments->gradient = floats(stage.gradients(update));
    for (size_t k = 0; k < arguments->state.size(); ++k)
      arguments->state[k] = floats(stage.optimizer_state[k].data());
    if (observer != nullptr) observer->Before(i);
    if (!stage.optimizer->Update(*arguments) && fault == nullptr) fault = &p;
    if (observer != nullptr) observer->After(i).IgnoreError();
  }
  return fault;
}

}  // namespace pipedream
