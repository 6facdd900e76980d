#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/graph/onnx/fold.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

absl::Status TranslateReshape(Translation& t) {
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> target, t.ConstantInts(1));
  bool allow_zero = t.attributes.Int("allowzero", 0) != 0;
  PD_RETURN_IF_ERROR(t.attributes.status());
  target = t.Rebatched(std::move(target), 1);
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> dims,
                      ResolveReshape(t.InputShape(0).dims(), target, allow_zero));
  return t.EmitReshape(std::move(dims));
}

absl::Status TranslateFlatten(Translation& t) {
  const Shape& x = t.InputShape(0);
  int64_t axis = t.attributes.Int("axis", 1);
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (axis < -x.rank() || axis > x.rank())
    return InvalidArgument("axis {} does not exist in {}", axis, x.ToString());
  if (axis < 0) axis += x.rank();
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? rows : columns) *= x[i];
  return t.EmitReshape({rows, columns});
}

absl::StatusOr<std::vector<int64_t>> NormalAxes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) {
    PD_ASSIGN_OR_RETURN(axis, NormalAxis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return InvalidArgument("an axis is named twice");
  return axes;
}

absl::Status TranslateSqueeze(Translation& t) {
  const Shape& x = t.InputShape(0);
  PD_ASSIGN_OR_RETURN(auto given, t.IntsFrom("axes", 1));
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> axes,
                      NormalAxes(given.value_or(std::vector<int64_t>{}), x.rank()));
  std::vector<int64_t> dims;
  for (int i = 0; i < x.rank(); ++i) {
    bool named = std::binary_search(axes.begin(), axes.end(), i);
    if (named && x[i] != 1)
      return InvalidArgument("axis {} of {} does not have size 1", i, x.ToString());
    if (!named && !(axes.empty() && x[i] == 1)) dims.push_back(x[i]);
  }
  return t.EmitReshape(std::move(dims));
}

absl::Status TranslateUnsqueeze(Translation& t) {
  const Shape& x = t.InputShape(0);
  PD_ASSIGN_OR_RETURN(auto given, t.IntsFrom("axes", 1));
  if (!given) return InvalidArgument("axes are missing");
  int64_t rank = x.rank() + static_cast<int64_t>(given->size());
  if (rank > static_cast<int64_t>(kMaxRank)) return InvalidArgument("result of rank {}", rank);
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> axes, NormalAxes(*given, rank));
  std::vector<int64_t> dims = x.dims();
  for (int64_t axis : axes) dims.insert(dims.begin() + axis, 1);
  return t.EmitReshape(std::move(dims));
}

absl::Status TranslateTranspose(Translation& t) {
  int rank = t.InputShape(0).rank();
  std::vector<int64_t> reversed;
  for (int i = rank; i-- > 0;) reversed.push_back(i);
  std::vector<int64_t> perm = t.attributes.Ints("perm", reversed);
  PD_RETURN_IF_ERROR(t.attributes.status());
  return t.EmitOutput("Transpose", {t.Input(0)}, Attributes().Set("perm", std::move(perm)))
      .status();
}

absl::Status TranslateExpand(Translation& t) {
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> target, t.ConstantInts(1));
  target = t.Rebatched(std::move(target), 1);
  if (target.size() > kMaxRank) return InvalidArgument("result of rank {}", target.size());
  std::vector<int64_t> from = t.InputShape(0).dims();
  while (from.size() < target.size()) from.insert(from.begin(), 1);
  while (target.size() < from.size()) target.insert(target.begin(), 1);
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 1) target[i] = from[i];
    if (target[i] < 0 || (from[i] != 1 && from[i] != target[i]))
      return InvalidArgument("{} does not expand to [{}]", t.InputShape(0).ToString(),
                             fmt::join(target, ", "));
  }
  if (target == t.InputShape(0).dims()) return t.Alias(0);
  return t.EmitOutput("Expand", {t.Input(0)}, Attributes().Set("shape", std::move(target)))
      .status();
}

// The pads of an operator whose input has `rank` axes, for all axes.
absl::StatusOr<std::vector<int64_t>> PadAmounts(Translation& t, int rank) {
  PD_ASSIGN_OR_RETURN(auto given, t.IntsFrom("pads", 1));
  if (!given) return InvalidArgument("pads are missing");
  std::vector<int64_t> axes;
  if (t.HasInput(3)) {
    PD_ASSIGN_OR_RETURN(axes, t.ConstantInts(3));
    for (int64_t& axis : axes) {
      PD_ASSIGN_OR_RETURN(axis, NormalAxis(axis, rank));
    }
  } else {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  if (given->size() != 2 * axes.size())
    return InvalidArgument("{} pads for {} axes", given->size(), axes.size());
  std::vector<int64_t> pads(2 * static_cast<size_t>(rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    pads[axes[i]] = (*given)[i];
    pads[axes[i] + rank] = (*given)[i + axes.size()];
  }
  return pads;
}

absl::Status TranslatePad(Translation& t) {
  std::string mode = t.attributes.String("mode", "constant");
  if (mode != "constant") return Unimplemented("mode '{}' (only 'constant' is)", mode);
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> pads, PadAmounts(t, t.InputShape(0).rank()));
  bool all_zero = true;
  for (int64_t p : pads) {
    if (p < 0) return Unimplemented("negative pads [{}]", fmt::join(pads, ", "));
    if (p > (int64_t{1} << 31)) return InvalidArgument("pads [{}]", fmt::join(pads, ", "));
    all_zero = all_zero && p == 0;
  }
  double value = 0;
  if (t.opset() < 11)
    value = t.attributes.Float("value", 0);
  else if (t.HasInput(2)) {
    PD_ASSIGN_OR_RETURN(value, t.ConstantFloat(2));
  }
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (all_zero) return t.Alias(0);
  return t
      .EmitOutput("Pad", {t.Input(0)},
                  Attributes().Set("pads", std::move(pads)).Set("value", value))
      .status();
}

absl::Status TranslateSlice(Translation& t) {
  const Shape& x = t.InputShape(0);
  PD_ASSIGN_OR_RETURN(auto starts, t.IntsFrom("starts", 1));
  PD_ASSIGN_OR_RETURN(auto ends, t.IntsFrom("ends", 2));
  PD_ASSIGN_OR_RETURN(auto axes, t.IntsFrom("axes", 3));
  PD_ASSIGN_OR_RETURN(auto steps, t.IntsFrom("steps", 4));
  if (!starts || !ends) return InvalidArgument("starts or ends are missing");
  size_t n = starts->size();
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < n; ++i) axes->push_back(static_cast<int64_t>(i));
  }
  if (!steps) steps.emplace(n, 1);
  if (ends->size() != n || axes->size() != n || steps->size() != n)
    return InvalidArgument("starts, ends, axes and steps differ in length");
  std::vector<int64_t> from(x.rank(), 0), to = x.dims(), by(x.rank(), 1);
  for (size_t i = 0; i < n; ++i) {
    PD_ASSIGN_OR_RETURN(int64_t axis, NormalAxis((*axes)[i], x.rank()));
    PD_ASSIGN_OR_RETURN(SliceRange range, ClampSlice((*starts)[i], (*ends)[i], (*steps)[i],
                                                     x[static_cast<int>(axis)]));
    if (range.step < 0) return Unimplemented("a negative step ({})", range.step);
    if (range.count == 0)
      return Unimplemented("an empty result: nothing is left of axis {} of {}", axis, x.ToString());
    by[axis] = std::min(range.step, x[static_cast<int>(axis)]);
    from[axis] = range.start;
    to[axis] = range.start + (range.count - 1) * by[axis] + 1;
  }
  if (to == x.dims() && by == std::vector<int64_t>(x.rank(), 1) &&
      from == std::vector<int64_t>(x.rank(), 0))
    return t.Alias(0);
  Attributes attributes;
  attributes.Set("starts", std::move(from)).Set("ends", std::move(to)).Set("steps", std::move(by));
  return t.EmitOutput("Slice", {t.Input(0)}, std::move(attributes)).status();
}

}  // namespace

std::vector<Translator> ShapeTranslators() {
  return {
      {"Reshape", TranslateReshape, 2, 2},
      {"Flatten", TranslateFlatten, 1, 1},
      {"Squeeze", TranslateSqueeze, 1, 2},
      {"Unsqueeze", TranslateUnsqueeze, 1, 2},
      {"Transpose", TranslateTranspose, 1, 1},
      {"Expand", TranslateExpand, 2, 2},
      {"Pad", TranslatePad, 1, 4},
      {"Slice", TranslateSlice, 1, 5},
  };
}

}  // namespace pipedream::onnx_import
