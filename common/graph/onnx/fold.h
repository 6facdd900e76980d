// Evaluation of nodes whose inputs are all known: the shape arithmetic that exporters write for
// dynamic batches, and small constants. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/graph/onnx/flat_model.h"

namespace pipedream::onnx_import {

// A small tensor in a form that is easy to compute with. Booleans are 0 and 1 in `ints`.
struct HostArray {
  DataType dtype = DataType::kInt64;  // kFloat32, kInt64 or kBool
  std::vector<int64_t> dims;
  std::vector<int64_t> ints;   // of kInt64 and kBool
  std::vector<double> floats;  // of kFloat32, rounded to float

  bool is_float() const { return dtype == DataType::kFloat32; }
  int64_t elements() const {
    return static_cast<int64_t>(is_float() ? floats.size() : ints.size());
  }
  static HostArray Ints(std::vector<int64_t> dims, std::vector<int64_t> values) {
    return {DataType::kInt64, std::move(dims), std::move(values), {}};
  }
};

inline constexpr int64_t kMaxFoldElements = int64_t{1} << 22;
inline constexpr size_t kMaxRank = 64;

// kUnimplemented for other types or more than kMaxFoldElements.
absl::StatusOr<HostArray> ToHostArray(const Tensor& tensor);
Tensor ToTensor(const HostArray& array);

// One node's evaluation. `inputs` has a null pointer where an optional input is absent.
using FoldInputs = std::vector<const HostArray*>;
using FoldFunction = absl::StatusOr<HostArray> (*)(const FlatNode& node, const FoldInputs& inputs,
                                                   const TensorSource& source);

// Null if the operator of the default domain cannot be folded. Every fold has one output.
FoldFunction FindFold(std::string_view op);

// Shared by the files of folds.
struct FoldEntry {
  std::string_view op;
  FoldFunction fold;
};
std::vector<FoldEntry> ArithmeticFolds();
std::vector<FoldEntry> ShapeFolds();

// Input `i`, or kInvalidArgument if it is absent.
absl::StatusOr<const HostArray*> FoldInput(const FoldInputs& inputs, size_t i);
// An axis in [-rank, rank) made non-negative.
absl::StatusOr<int64_t> NormalAxis(int64_t axis, int64_t rank);
// Elements of a result's dims, within kMaxFoldElements.
absl::StatusOr<int64_t> FoldElements(const std::vector<int64_t>& dims);
// What Slice takes along one axis of size `size`, after clamping: `count` elements from `start` by
// `step`. kInvalidArgument for step 0.
struct SliceRange {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};
absl::StatusOr<SliceRange> ClampSlice(int64_t start, int64_t end, int64_t step, int64_t size);
// A Reshape target with 0 and -1 filled in.
absl::StatusOr<std::vector<int64_t>> ResolveReshape(const std::vector<int64_t>& from,
                                                    const std::vector<int64_t>& target,
                                                    bool allow_zero);

}  // namespace pipedream::onnx_import
