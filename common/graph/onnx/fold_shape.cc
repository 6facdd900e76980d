// Folds of operators that move elements about.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/status.h"
#include "common/graph/onnx/fold.h"
#include "common/graph/onnx/node_attributes.h"
#include "common/graph/onnx/proto.h"

namespace pipedream::onnx_import {
namespace {

using Result = absl::StatusOr<HostArray>;

// Elements of `from` in the order of `indices`, shaped `dims`.
HostArray Pick(const HostArray& from, std::vector<int64_t> dims,
               const std::vector<int64_t>& indices) {
  HostArray out;
  out.dtype = from.dtype;
  out.dims = std::move(dims);
  for (int64_t i : indices) {
    if (from.is_float())
      out.floats.push_back(from.floats[i]);
    else
      out.ints.push_back(from.ints[i]);
  }
  return out;
}

HostArray WithDims(const HostArray& from, std::vector<int64_t> dims) {
  HostArray out = from;
  out.dims = std::move(dims);
  return out;
}

std::vector<int64_t> Strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// Axes as attribute (older opsets) or as input 1.
absl::StatusOr<std::vector<int64_t>> Axes(const FlatNode& node, const FoldInputs& inputs) {
  if (inputs.size() > 1 && inputs[1] != nullptr) return inputs[1]->ints;
  NodeAttributes attributes(node);
  std::vector<int64_t> axes = attributes.Ints("axes");
  PD_RETURN_IF_ERROR(attributes.status());
  return axes;
}

Result FoldIdentity(const FlatNode&, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  return *x;
}

Result FoldGather(const FlatNode& node, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  PD_ASSIGN_OR_RETURN(const HostArray* at, FoldInput(inputs, 1));
  NodeAttributes attributes(node);
  PD_ASSIGN_OR_RETURN(int64_t axis,
                      NormalAxis(attributes.Int("axis", 0), static_cast<int64_t>(x->dims.size())));
  PD_RETURN_IF_ERROR(attributes.status());
  if (at->is_float()) return InvalidArgument("indices are not integers");
  std::vector<int64_t> dims(x->dims.begin(), x->dims.begin() + axis);
  int64_t outer = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  dims.insert(dims.end(), at->dims.begin(), at->dims.end());
  dims.insert(dims.end(), x->dims.begin() + axis + 1, x->dims.end());
  PD_RETURN_IF_ERROR(FoldElements(dims).status());
  int64_t size = x->dims[axis], inner = Strides(x->dims)[axis];
  std::vector<int64_t> indices;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t index : at->ints) {
      if (index < -size || index >= size)
        return InvalidArgument("index {} is outside an axis of size {}", index, size);
      int64_t row = index < 0 ? index + size : index;
      for (int64_t i = 0; i < inner; ++i) indices.push_back((o * size + row) * inner + i);
    }
  return Pick(*x, std::move(dims), indices);
}

Result FoldConcat(const FlatNode& node, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* first, FoldInput(inputs, 0));
  NodeAttributes attributes(node);
  PD_ASSIGN_OR_RETURN(int64_t axis, NormalAxis(attributes.Int("axis", 0),
                                               static_cast<int64_t>(first->dims.size())));
  PD_RETURN_IF_ERROR(attributes.status());
  std::vector<int64_t> dims = first->dims;
  dims[axis] = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, i));
    std::vector<int64_t> expected = x->dims;
    if (x->dtype != first->dtype || expected.size() != dims.size())
      return InvalidArgument("input {} differs from input 0 in type or rank", i);
    expected[axis] = dims[axis];
    if (expected != dims) return InvalidArgument("input {} differs from input 0 in shape", i);
    dims[axis] += x->dims[axis];
    PD_RETURN_IF_ERROR(FoldElements(dims).status());
  }
  HostArray out;
  out.dtype = first->dtype;
  out.dims = dims;
  int64_t outer =
      std::accumulate(dims.begin(), dims.begin() + axis, int64_t{1}, std::multiplies<>());
  for (int64_t o = 0; o < outer; ++o)
    for (const HostArray* x : inputs) {
      int64_t chunk = x->elements() / outer;
      if (out.is_float())
        out.floats.insert(out.floats.end(), x->floats.begin() + o * chunk,
                          x->floats.begin() + (o + 1) * chunk);
      else
        out.ints.insert(out.ints.end(), x->ints.begin() + o * chunk,
                        x->ints.begin() + (o + 1) * chunk);
    }
  return out;
}

Result FoldUnsqueeze(const FlatNode& node, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> axes, Axes(node, inputs));
  int64_t rank = static_cast<int64_t>(x->dims.size() + axes.size());
  if (rank > static_cast<int64_t>(kMaxRank)) return InvalidArgument("a tensor of rank {}", rank);
  for (int64_t& axis : axes) {
    PD_ASSIGN_OR_RETURN(axis, NormalAxis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return InvalidArgument("an axis is named twice");
  std::vector<int64_t> dims = x->dims;
  for (int64_t axis : axes) dims.insert(dims.begin() + axis, 1);
  return WithDims(*x, std::move(dims));
}

Result FoldSqueeze(const FlatNode& node, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> axes, Axes(node, inputs));
  std::vector<bool> drop(x->dims.size(), false);
  for (size_t i = 0; axes.empty() && i < drop.size(); ++i) drop[i] = x->dims[i] == 1;
  for (int64_t axis : axes) {
    PD_ASSIGN_OR_RETURN(axis, NormalAxis(axis, static_cast<int64_t>(x->dims.size())));
    if (x->dims[axis] != 1)
      return InvalidArgument("axis {} has size {}, not 1", axis, x->dims[axis]);
    drop[axis] = true;
  }
  std::vector<int64_t> dims;
  for (size_t i = 0; i < drop.size(); ++i)
    if (!drop[i]) dims.push_back(x->dims[i]);
  return WithDims(*x, std::move(dims));
}

Result FoldReshape(const FlatNode& node, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  PD_ASSIGN_OR_RETURN(const HostArray* target, FoldInput(inputs, 1));
  NodeAttributes attributes(node);
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> dims,
                      ResolveReshape(x->dims, target->ints, attributes.Int("allowzero", 0) != 0));
  return WithDims(*x, std::move(dims));
}

// One source index per output element of a strided view.
std::vector<int64_t> ViewIndices(const std::vector<int64_t>& dims,
                                 const std::vector<int64_t>& strides, int64_t offset) {
  std::vector<int64_t> indices{offset};
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    std::vector<int64_t> next;
    next.reserve(indices.size() * dims[axis]);
    for (int64_t base : indices)
      for (int64_t i = 0; i < dims[axis]; ++i) next.push_back(base + i * strides[axis]);
    indices = std::move(next);
  }
  return indices;
}

Result FoldSlice(const FlatNode& node, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  NodeAttributes attributes(node);
  auto list = [&](size_t i, std::string_view name) {
    if (i < inputs.size() && inputs[i] != nullptr) return inputs[i]->ints;
    return attributes.Ints(name);
  };
  std::vector<int64_t> starts = list(1, "starts"), ends = list(2, "ends"), axes = list(3, "axes"),
                       steps = list(4, "steps");
  PD_RETURN_IF_ERROR(attributes.status());
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return InvalidArgument("starts, ends, axes and steps differ in length");
  std::vector<int64_t> dims = x->dims, strides = Strides(x->dims);
  int64_t offset = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    PD_ASSIGN_OR_RETURN(int64_t axis, NormalAxis(axes[i], static_cast<int64_t>(dims.size())));
    PD_ASSIGN_OR_RETURN(SliceRange range, ClampSlice(starts[i], ends[i], steps[i], x->dims[axis]));
    dims[axis] = range.count;
    if (range.count == 0) continue;
    offset += range.start * Strides(x->dims)[axis];
    if (range.count > 1) strides[axis] = Strides(x->dims)[axis] * range.step;
  }
  PD_RETURN_IF_ERROR(FoldElements(dims).status());
  return Pick(*x, dims, ViewIndices(dims, strides, offset));
}

Result FoldTranspose(const FlatNode& node, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  NodeAttributes attributes(node);
  std::vector<int64_t> perm = attributes.Ints("perm");
  PD_RETURN_IF_ERROR(attributes.status());
  if (perm.empty())
    for (size_t i = x->dims.size(); i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i)) return InvalidArgument("perm is no permutation");
  if (perm.size() != x->dims.size()) return InvalidArgument("perm does not fit the input's rank");
  std::vector<int64_t> dims, strides, old = Strides(x->dims);
  for (int64_t axis : perm) {
    dims.push_back(x->dims[axis]);
    strides.push_back(old[axis]);
  }
  return Pick(*x, dims, ViewIndices(dims, strides, 0));
}

Result FoldExpand(const FlatNode&, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  PD_ASSIGN_OR_RETURN(const HostArray* target, FoldInput(inputs, 1));
  std::vector<int64_t> dims = target->ints, from = x->dims;
  while (dims.size() < from.size()) dims.insert(dims.begin(), 1);
  while (from.size() < dims.size()) from.insert(from.begin(), 1);
  std::vector<int64_t> strides = Strides(from);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) dims[i] = from[i];
    if (from[i] == 1)
      strides[i] = 0;
    else if (from[i] != dims[i])
      return InvalidArgument("[{}] does not expand to [{}]", fmt::join(x->dims, ", "),
                             fmt::join(target->ints, ", "));
  }
  PD_RETURN_IF_ERROR(FoldElements(dims).status());
  return Pick(*x, dims, ViewIndices(dims, strides, 0));
}

Result FoldConstantOfShape(const FlatNode& node, const FoldInputs& inputs,
                           const TensorSource& source) {
  PD_ASSIGN_OR_RETURN(const HostArray* shape, FoldInput(inputs, 0));
  NodeAttributes attributes(node);
  HostArray fill{DataType::kFloat32, {1}, {}, {0}};
  if (const onnx::TensorProto* value = attributes.TensorValue("value")) {
    PD_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(*value, "attribute 'value'", source));
    PD_ASSIGN_OR_RETURN(fill, ToHostArray(tensor));
  }
  PD_RETURN_IF_ERROR(attributes.status());
  if (fill.elements() != 1) return InvalidArgument("attribute 'value' must have one element");
  PD_ASSIGN_OR_RETURN(int64_t n, FoldElements(shape->ints));
  return Pick(fill, shape->ints, std::vector<int64_t>(n, 0));
}

Result FoldRange(const FlatNode&, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* start, FoldInput(inputs, 0));
  PD_ASSIGN_OR_RETURN(const HostArray* limit, FoldInput(inputs, 1));
  PD_ASSIGN_OR_RETURN(const HostArray* delta, FoldInput(inputs, 2));
  if (start->elements() != 1 || limit->elements() != 1 || delta->elements() != 1 ||
      start->is_float() || limit->is_float() || delta->is_float())
    return Unimplemented("on constants, only for integer scalars");
  constexpr int64_t kFar = int64_t{1} << 60;
  int64_t first = start->ints[0], end = limit->ints[0], step = delta->ints[0];
  if (step == 0) return InvalidArgument("delta is 0");
  if (std::max({std::abs(first / 2), std::abs(end / 2), std::abs(step / 2)}) > kFar / 2)
    return InvalidArgument("numbers beyond 2^60");
  int64_t count = step > 0 ? (end - first + step - 1) / step : (first - end - step - 1) / -step;
  count = std::max<int64_t>(count, 0);
  PD_RETURN_IF_ERROR(FoldElements({count}).status());
  std::vector<int64_t> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = first + i * step;
  return HostArray::Ints({count}, std::move(values));
}

}  // namespace

std::vector<FoldEntry> ShapeFolds() {
  return {
      {"Identity", FoldIdentity}, {"Gather", FoldGather},
      {"Concat", FoldConcat},     {"Unsqueeze", FoldUnsqueeze},
      {"Squeeze", FoldSqueeze},   {"Reshape", FoldReshape},
      {"Slice", FoldSlice},       {"Transpose", FoldTranspose},
      {"Expand", FoldExpand},     {"ConstantOfShape", FoldConstantOfShape},
      {"Range", FoldRange},
  };
}

}  // namespace pipedream::onnx_import
