#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;

absl::Status CheckList(const std::vector<int64_t>& list, size_t size, int64_t minimum,
                       std::string_view name) {
  if (list.size() != size)
    return InvalidArgument("attribute '{}' has {} entries, expected {}", name, list.size(), size);
  for (int64_t v : list)
    if (v < minimum || v > kMaxExtent)
      return InvalidArgument("attribute '{}' is [{}], expected numbers of at least {}", name,
                             fmt::join(list, ", "), minimum);
  return absl::OkStatus();
}

void AutoPad(bool upper, int64_t size, size_t axis, Window* window) {
  int64_t stride = window->strides[axis];
  int64_t extent = (window->kernel[axis] - 1) * window->dilations[axis] + 1;
  int64_t out = (size + stride - 1) / stride;
  int64_t total = std::max<int64_t>(0, (out - 1) * stride + extent - size);
  int64_t begin = upper ? total / 2 : total - total / 2;
  window->pads[axis] = begin;
  window->pads[axis + window->kernel.size()] = total - begin;
}

// One more window at the end if it starts inside the input or the begin pads.
void CeilMode(int64_t size, size_t axis, Window* window) {
  size_t k = window->kernel.size();
  int64_t begin = window->pads[axis], end = window->pads[axis + k];
  int64_t stride = window->strides[axis];
  int64_t extent = (window->kernel[axis] - 1) * window->dilations[axis] + 1;
  int64_t room = size + begin + end - extent;
  if (room < 0) return;                         // the operator's own check says so
  int64_t last = (room + stride - 1) / stride;  // index of the last window
  if (last * stride >= size + begin) --last;
  int64_t needed = last * stride + extent - (size + begin);
  if (needed <= end) return;
  window->pads[axis + k] = needed;
  window->grew = true;
}

}  // namespace

absl::StatusOr<Window> ReadWindow(Translation& t, std::vector<int64_t> kernel) {
  const Shape& x = t.InputShape(0);
  int rank = x.rank() - 2;
  if (rank < 1 || rank > 3)
    return Unimplemented("input of rank {} ({}); supported are 1 to 3 spatial axes", x.rank(),
                         x.ToString());
  size_t k = static_cast<size_t>(rank);
  Window window;
  window.kernel = t.attributes.Ints("kernel_shape", kernel);
  window.strides = t.attributes.Ints("strides", std::vector<int64_t>(k, 1));
  window.dilations = t.attributes.Ints("dilations", std::vector<int64_t>(k, 1));
  window.pads = t.attributes.Ints("pads", std::vector<int64_t>(2 * k, 0));
  std::string auto_pad = t.attributes.String("auto_pad", "NOTSET");
  bool ceil = t.attributes.Int("ceil_mode", 0) != 0;
  PD_RETURN_IF_ERROR(t.attributes.status());
  PD_RETURN_IF_ERROR(CheckList(window.kernel, k, 1, "kernel_shape"));
  PD_RETURN_IF_ERROR(CheckList(window.strides, k, 1, "strides"));
  PD_RETURN_IF_ERROR(CheckList(window.dilations, k, 1, "dilations"));
  if (std::any_of(window.pads.begin(), window.pads.end(), [](int64_t p) { return p < 0; }))
    return Unimplemented("negative pads [{}]", fmt::join(window.pads, ", "));
  PD_RETURN_IF_ERROR(CheckList(window.pads, 2 * k, 0, "pads"));
  if (!kernel.empty() && window.kernel != kernel)
    return InvalidArgument("attribute 'kernel_shape' is [{}], but the weight's kernel is [{}]",
                           fmt::join(window.kernel, ", "), fmt::join(kernel, ", "));
  if (auto_pad == "VALID") {
    std::fill(window.pads.begin(), window.pads.end(), 0);
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    for (size_t axis = 0; axis < k; ++axis)
      AutoPad(auto_pad == "SAME_UPPER", x[static_cast<int>(axis) + 2], axis, &window);
  } else if (auto_pad != "NOTSET" && !auto_pad.empty()) {
    return InvalidArgument("attribute 'auto_pad' is '{}'", auto_pad);
  }
  for (size_t axis = 0; ceil && axis < k; ++axis)
    CeilMode(x[static_cast<int>(axis) + 2], axis, &window);
  return window;
}

}  // namespace pipedream::onnx_import
