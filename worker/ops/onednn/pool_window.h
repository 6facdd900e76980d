// Windows of pools, always with three spatial axes (absent ones have size 1).
#pragma once

#include <array>
#include <cstdint>

#include "worker/ops/onednn/request.h"

namespace pipedream::onednn {

using Triple = std::array<int64_t, 3>;

struct PoolWindow {
  int64_t planes = 1;  // N * C
  Triple x{1, 1, 1}, y{1, 1, 1};
  Triple kernel{1, 1, 1}, strides{1, 1, 1}, dilations{1, 1, 1}, begin{}, end{};
  bool count_include_pad = false;

  int64_t x_elements() const { return x[0] * x[1] * x[2]; }
  int64_t y_elements() const { return y[0] * y[1] * y[2]; }
};

PoolWindow WindowOf(const Node& node, const Shape& x, const Shape& y);
// oneDNN's pools want undilated windows and padding smaller than the kernel.
bool OneDnnCanPool(const PoolWindow& window);

// The key of the workspace that MaxPoolGradLoops reads: int32 offsets within x's plane.
inline constexpr char kLoopWorkspaceKey[] = "max_pool_offsets";

}  // namespace pipedream::onednn
