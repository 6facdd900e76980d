#include <algorithm>
#include <numeric>

#include "common/base/status.h"
#include "common/graph/onnx/fold.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

absl::Status TranslateReduce(Translation& t) {
  int rank = t.InputShape(0).rank();
  PD_ASSIGN_OR_RETURN(auto given, t.IntsFrom("axes", 1));
  int64_t keepdims = t.attributes.Int("keepdims", 1) != 0;
  bool none_means_none = t.attributes.Int("noop_with_empty_axes", 0) != 0;
  PD_RETURN_IF_ERROR(t.attributes.status());
  std::vector<int64_t> axes = given.value_or(std::vector<int64_t>{});
  for (int64_t& axis : axes) {
    PD_ASSIGN_OR_RETURN(axis, NormalAxis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return InvalidArgument("an axis is named twice");
  if (axes.empty() && none_means_none) return t.Alias(0);
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (rank == 0) return t.Alias(0);
  Attributes attributes;
  attributes.Set("axes", std::move(axes)).Set("keepdims", keepdims);
  return t.EmitOutput(t.node().op, {t.Input(0)}, std::move(attributes)).status();
}

// Before opset 13 everything from `axis` on is one axis.
absl::Status TranslateSoftmax(Translation& t) {
  Shape x = t.InputShape(0);
  PD_ASSIGN_OR_RETURN(int64_t axis,
                      NormalAxis(t.attributes.Int("axis", t.opset() < 13 ? 1 : -1), x.rank()));
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (t.opset() >= 13 || axis == x.rank() - 1)
    return t.EmitOutput("Softmax", {t.Input(0)}, Attributes().Set("axis", axis)).status();
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? rows : columns) *= x[i];
  PD_ASSIGN_OR_RETURN(auto flat,
                      t.Emit("Reshape", {t.Input(0)},
                             Attributes().Set("shape", std::vector<int64_t>{rows, columns})));
  PD_ASSIGN_OR_RETURN(auto y, t.Emit("Softmax", {flat[0]}, Attributes().Set("axis", int64_t{1})));
  return t.EmitOutput("Reshape", {y[0]}, Attributes().Set("shape", x.dims())).status();
}

}  // namespace

std::vector<Translator> ReductionTranslators() {
  return {{"ReduceMean", TranslateReduce, 1, 2},
          {"ReduceSum", TranslateReduce, 1, 2},
          {"Softmax", TranslateSoftmax, 1, 1}};
}

}  // namespace pipedream::onnx_import
