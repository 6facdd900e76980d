#include "common/graph/op_defs/spatial.h"

#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {

absl::StatusOr<Window> ReadWindow(const Node& node, const Shape& x, bool dilated) {
  int k = x.rank() - 2;
  if (k < 1 || k > 3) {
    return InvalidArgument("input 0 (x) is {}, expected [N, C, D1..Dk] with 1 to 3 spatial axes",
                           x.ToString());
  }
  Window window;
  PD_ASSIGN_OR_RETURN(window.kernel, RequireInts(node, "kernel", k, 1));
  PD_ASSIGN_OR_RETURN(window.strides, RequireInts(node, "strides", k, 1));
  PD_ASSIGN_OR_RETURN(window.pads, RequireInts(node, "pads", 2 * k, 0));
  if (dilated) {
    PD_ASSIGN_OR_RETURN(window.dilations, RequireInts(node, "dilations", k, 1));
  } else {
    window.dilations.assign(k, 1);
  }
  return window;
}

absl::StatusOr<Shape> Slide(const Window& window, const Shape& x, int64_t channels) {
  std::vector<int64_t> dims = {x[0], channels};
  int k = static_cast<int>(window.kernel.size());
  for (int i = 0; i < k; ++i) {
    int64_t reach = window.dilations[i] * (window.kernel[i] - 1) + 1;
    int64_t padded = x[i + 2] + window.pads[i] + window.pads[i + k];
    if (padded < reach) {
      return InvalidArgument(
          "the kernel spans {} on spatial axis {}, more than the padded input's {}", reach, i,
          padded);
    }
    dims.push_back((padded - reach) / window.strides[i] + 1);
  }
  return Shape(std::move(dims));
}

absl::Status CheckWindowsTouch(const Window& window, const Shape& x, const Shape& y) {
  for (size_t axis = 0; axis < window.kernel.size(); ++axis) {
    int a = static_cast<int>(axis) + 2;
    for (int64_t o = 0; o < y[a]; ++o) {
      bool touches = false;
      for (int64_t t = 0; t < window.kernel[axis] && !touches; ++t) {
        int64_t i = o * window.strides[axis] - window.pads[axis] + t * window.dilations[axis];
        touches = i >= 0 && i < x[a];
      }
      if (!touches) {
        return InvalidArgument(
            "attribute pads leaves window {} of spatial axis {} wholly in the padding", o, axis);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace pipedream::op_defs
