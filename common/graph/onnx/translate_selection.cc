// Concat, Split, Gather, Where.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/base/status.h"
#include "common/graph/onnx/fold.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

absl::Status TranslateConcat(Translation& t) {
  std::vector<ValueId> inputs;
  for (int i = 0; i < t.input_count(); ++i) {
    if (!t.HasInput(i)) return InvalidArgument("input {} is missing", i);
  }
  // Opset 4 made the axis mandatory.
  if (!t.attributes.Has("axis")) return InvalidArgument("attribute 'axis' is missing");
  PD_ASSIGN_OR_RETURN(int64_t axis,
                      NormalAxis(t.attributes.Int("axis", 0), t.InputShape(0).rank()));
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (t.input_count() == 1) return t.Alias(0);
  for (int i = 0; i < t.input_count(); ++i) {
    const Shape& shape = t.InputShape(i);
    if (axis < shape.rank() && shape[static_cast<int>(axis)] == 0)
      return Unimplemented("an empty input ({} is {})", i, shape.ToString());
    inputs.push_back(t.Input(i));
  }
  return t.EmitOutput("Concat", std::move(inputs), Attributes().Set("axis", axis)).status();
}

// Sizes of `parts` parts of an axis of `size` elements.
absl::StatusOr<std::vector<int64_t>> EvenParts(Translation& t, int64_t size, int64_t parts) {
  // Opset 18 lets the last part be smaller.
  int64_t count = t.attributes.Int("num_outputs", parts);
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (count != parts)
    return InvalidArgument("num_outputs is {}, but it has {} outputs", count, parts);
  int64_t most = (size + parts - 1) / parts;
  int64_t last = size - most * (parts - 1);
  if (last != most && (t.opset() < 18 || last < 1))
    return InvalidArgument("{} elements do not split into {} parts", size, parts);
  std::vector<int64_t> sizes(static_cast<size_t>(parts), most);
  sizes.back() = last;
  return sizes;
}

absl::Status TranslateSplit(Translation& t) {
  const Shape& x = t.InputShape(0);
  PD_ASSIGN_OR_RETURN(int64_t axis, NormalAxis(t.attributes.Int("axis", 0), x.rank()));
  PD_RETURN_IF_ERROR(t.attributes.status());
  int64_t size = x[static_cast<int>(axis)];
  auto parts = static_cast<int64_t>(t.node().outputs.size());
  PD_ASSIGN_OR_RETURN(auto given, t.IntsFrom("split", 1));
  if (!given) {
    PD_ASSIGN_OR_RETURN(given, EvenParts(t, size, parts));
  }
  if (static_cast<int64_t>(given->size()) != parts ||
      std::accumulate(given->begin(), given->end(), int64_t{0}) != size ||
      std::any_of(given->begin(), given->end(), [](int64_t s) { return s < 0; }))
    return InvalidArgument("parts [{}] for {} outputs and an axis of {} elements",
                           fmt::join(*given, ", "), parts, size);
  if (std::any_of(given->begin(), given->end(), [](int64_t s) { return s == 0; }))
    return Unimplemented("an empty part ([{}])", fmt::join(*given, ", "));
  if (parts == 1) return t.Alias(0);
  return t.EmitOutputs("Split", {t.Input(0)},
                       Attributes().Set("axis", axis).Set("split", *std::move(given)));
}

absl::Status TranslateGather(Translation& t) {
  const Shape& x = t.InputShape(0);
  PD_ASSIGN_OR_RETURN(int64_t axis, NormalAxis(t.attributes.Int("axis", 0), x.rank()));
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (t.InputType(1) != DataType::kInt64)
    return InvalidArgument("its indices are {}, expected integers", ToString(t.InputType(1)));
  if (t.IsConstant(1)) {
    int64_t size = x[static_cast<int>(axis)];
    for (int64_t index : t.Constant(1).as<int64_t>())
      if (index < -size || index >= size)
        return InvalidArgument("index {} is outside axis {} of {}", index, axis, x.ToString());
  }
  return t.EmitOutput("Gather", {t.Input(0), t.Input(1)}, Attributes().Set("axis", axis)).status();
}

absl::Status TranslateWhere(Translation& t) {
  if (t.InputType(0) != DataType::kBool)
    return InvalidArgument("its condition is {}, expected bool", ToString(t.InputType(0)));
  for (int i : {1, 2})
    if (t.InputType(i) != DataType::kFloat32)
      return Unimplemented("a choice between {} tensors computed at run time",
                           ToString(t.InputType(i)));
  return t.EmitOutput("Where", {t.Input(0), t.Input(1), t.Input(2)}).status();
}

}  // namespace

std::vector<Translator> SelectionTranslators() {
  constexpr int kMany = 1 << 20;
  return {
      {"Concat", TranslateConcat, 1, kMany},
      {"Split", TranslateSplit, 1, 2, kMany},
      {"Gather", TranslateGather, 2, 2},
      {"Where", TranslateWhere, 3, 3},
  };
}

}  // namespace pipedream::onnx_import
