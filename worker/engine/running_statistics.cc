#include "worker/engine/running_statistics.h"

#include <cmath>
#include <cstring>

#include "worker/engine/parameter_update.h"

namespace pipedream {

void AddStateShare(StageState& stage, int64_t update, int32_t slot, int64_t later, bool first) {
  std::byte* sum = stage.gradients(update) + stage.layout.parameter_bytes;
  const std::byte* share = stage.state_shares[slot].data();
  for (size_t i = 0; i < stage.layout.states.size(); ++i) {
    const StoredTensor& state = stage.layout.states[i];
    const size_t count = state.spec.bytes / sizeof(float);
    float* to = reinterpret_cast<float*>(sum + state.offset);
    if (first) std::memset(to, 0, state.spec.bytes);
    AddScaled(to, reinterpret_cast<const float*>(share + state.offset), count,
              static_cast<float>(std::pow(stage.state_momentum[i], static_cast<double>(later))));
  }
}

void AdvanceStates(StageState& stage, int64_t update, int64_t filled) {
  const std::byte* sum = stage.gradients(update) + stage.layout.parameter_bytes;
  for (size_t i = 0; i < stage.layout.states.size(); ++i) {
    if (stage.state_momentum[i] == 0) continue;
    const StoredTensor& state = stage.layout.states[i];
    const size_t count = state.spec.bytes / sizeof(float);
    float* values = reinterpret_cast<float*>(stage.states.data() + state.offset);
    ScaleInPlace(
        values, count,
        static_cast<float>(std::pow(stage.state_momentum[i], static_cast<double>(filled))));
    AddScaled(values, reinterpret_cast<const float*>(sum + state.offset), count, 1.0f);
  }
}

}  // namespace pipedream
