#include "common/base/status.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

absl::Status TranslateConv(Translation& t) {
  const Shape& w = t.InputShape(1);
  if (w.rank() != t.InputShape(0).rank() || w.rank() < 3)
    return InvalidArgument("input is {} and weight is {}; both need rank 3 to 5",
                           t.InputShape(0).ToString(), w.ToString());
  std::vector<int64_t> kernel(w.dims().begin() + 2, w.dims().end());
  PD_ASSIGN_OR_RETURN(Window window, ReadWindow(t, std::move(kernel)));
  int64_t group = t.attributes.Int("group", 1);
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (group < 1) return InvalidArgument("attribute 'group' is {}", group);
  Attributes attributes;
  attributes.Set("kernel", window.kernel)
      .Set("strides", window.strides)
      .Set("dilations", window.dilations)
      .Set("pads", window.pads)
      .Set("group", group);
  std::vector<ValueId> inputs{t.Input(0), t.Input(1)};
  if (t.HasInput(2)) inputs.push_back(t.Input(2));
  return t.EmitOutput("Conv", std::move(inputs), std::move(attributes)).status();
}

}  // namespace

std::vector<Translator> ConvolutionTranslators() { return {{"Conv", TranslateConv, 2, 3}}; }

}  // namespace pipedream::onnx_import
