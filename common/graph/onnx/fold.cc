#include "common/graph/onnx/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/base/status.h"

namespace pipedream::onnx_import {

absl::StatusOr<HostArray> ToHostArray(const Tensor& tensor) {
  HostArray array;
  array.dtype = tensor.dtype();
  array.dims = tensor.shape().dims();
  if (tensor.shape().elements() > kMaxFoldElements)
    return Unimplemented("a constant of {} elements is too large to compute with at import",
                         tensor.shape().elements());
  switch (tensor.dtype()) {
    case DataType::kFloat32:
      array.floats.assign(tensor.as<float>().begin(), tensor.as<float>().end());
      return array;
    case DataType::kInt64:
      array.ints.assign(tensor.as<int64_t>().begin(), tensor.as<int64_t>().end());
      return array;
    case DataType::kBool:
      for (std::byte b : tensor.bytes()) array.ints.push_back(b != std::byte{0});
      return array;
    default:
      return Unimplemented("constants of type {}", ToString(tensor.dtype()));
  }
}

Tensor ToTensor(const HostArray& array) {
  Shape shape(array.dims);
  if (array.is_float())
    return Tensor::FromVector(std::move(shape),
                              std::vector<float>(array.floats.begin(), array.floats.end()));
  if (array.dtype == DataType::kInt64) return Tensor::FromVector(std::move(shape), array.ints);
  std::vector<uint8_t> bytes(array.ints.begin(), array.ints.end());
  return Tensor::Copy(DataType::kBool, std::move(shape),
                      std::as_bytes(std::span<const uint8_t>(bytes)));
}

FoldFunction FindFold(std::string_view op) {
  static const auto* table = [] {
    auto* map = new std::map<std::string_view, FoldFunction>();
    for (const FoldEntry& entry : ArithmeticFolds()) map->emplace(entry.op, entry.fold);
    for (const FoldEntry& entry : ShapeFolds()) map->emplace(entry.op, entry.fold);
    return map;
  }();
  auto found = table->find(op);
  return found == table->end() ? nullptr : found->second;
}

absl::StatusOr<const HostArray*> FoldInput(const FoldInputs& inputs, size_t i) {
  if (i >= inputs.size() || inputs[i] == nullptr) return InvalidArgument("input {} is missing", i);
  return inputs[i];
}

absl::StatusOr<int64_t> NormalAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return InvalidArgument("axis {} does not exist in a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

absl::StatusOr<int64_t> FoldElements(const std::vector<int64_t>& dims) {
  int64_t elements = 0;
  if (dims.size() > kMaxRank) return InvalidArgument("a tensor of rank {}", dims.size());
  for (int64_t d : dims)
    if (d < 0) return InvalidArgument("negative dimension in shape [{}]", fmt::join(dims, ", "));
  if (!CheckedElements(dims, kMaxFoldElements, &elements))
    return Unimplemented("a constant of shape [{}] is too large to compute at import",
                         fmt::join(dims, ", "));
  return elements;
}

absl::StatusOr<SliceRange> ClampSlice(int64_t start, int64_t end, int64_t step, int64_t size) {
  if (step == 0) return InvalidArgument("a step is 0");
  // Beyond these nothing changes, and arithmetic below cannot overflow.
  constexpr int64_t kFar = int64_t{1} << 60;
  start = std::clamp(start, -kFar, kFar);
  end = std::clamp(end, -kFar, kFar);
  step = std::clamp(step, -kFar, kFar);
  if (start < 0) start += size;
  if (end < 0) end += size;
  SliceRange range;
  range.step = step;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, size);
    end = std::clamp<int64_t>(end, 0, size);
    range.count = end > start ? (end - start + step - 1) / step : 0;
  } else {
    start = std::clamp<int64_t>(start, -1, size - 1);
    end = std::clamp<int64_t>(end, -1, size - 1);
    range.count = start > end ? (start - end - step - 1) / -step : 0;
  }
  range.start = start;
  return range;
}

absl::StatusOr<std::vector<int64_t>> ResolveReshape(const std::vector<int64_t>& from,
                                                    const std::vector<int64_t>& target,
                                                    bool allow_zero) {
  constexpr int64_t kLimit = int64_t{1} << 60;
  if (target.size() > kMaxRank) return InvalidArgument("a shape of rank {}", target.size());
  std::vector<int64_t> dims = target;
  int64_t elements = 0, known = 1;
  if (!CheckedElements(from, kLimit, &elements)) return InvalidArgument("the input is too large");
  int free_axis = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allow_zero) {
      if (i >= from.size())
        return InvalidArgument("shape [{}] copies axis {} of an input of rank {}",
                               fmt::join(target, ", "), i, from.size());
      dims[i] = from[i];
    }
    if (dims[i] == -1) {
      if (free_axis >= 0)
        return InvalidArgument("shape [{}] has two entries -1", fmt::join(target, ", "));
      free_axis = static_cast<int>(i);
      continue;
    }
    if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known) || known > kLimit)
      return InvalidArgument("[{}] is not a shape", fmt::join(target, ", "));
  }
  if (free_axis >= 0 && known > 0 && elements % known == 0) {
    dims[free_axis] = elements / known;
    known *= dims[free_axis];
  }
  if (known != elements || (free_axis >= 0 && dims[free_axis] < 0))
    return InvalidArgument("{} elements of shape [{}] do not fit into shape [{}]", elements,
                           fmt::join(from, ", "), fmt::join(target, ", "));
  return dims;
}

}  // namespace pipedream::onnx_import
