// Sliding windows of convolutions and pools.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "common/graph/op_def.h"

namespace pipedream::op_defs {

struct Window {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> pads;  // all begins, then all ends
  std::vector<int64_t> dilations;
};

// Reads the attributes for `x`[N, C, D1..Dk], k = 1 to 3. Operators without dilations get ones.
absl::StatusOr<Window> ReadWindow(const Node& node, const Shape& x, bool dilated);
// [N, channels, spatial ..] after sliding over `x`.
absl::StatusOr<Shape> Slide(const Window& window, const Shape& x, int64_t channels);
// kInvalidArgument if some window touches padding only: a pool of nothing has no value.
absl::Status CheckWindowsTouch(const Window& window, const Shape& x, const Shape& y);

}  // namespace pipedream::op_defs
