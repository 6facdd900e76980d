#include <algorithm>

#include "common/base/status.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

absl::Status TranslateMaxPool(Translation& t) {
  if (t.WantsOutput(1)) return Unimplemented("its indices are used");
  PD_ASSIGN_OR_RETURN(Window window, ReadWindow(t, {}));
  Attributes attributes;
  attributes.Set("kernel", window.kernel)
      .Set("strides", window.strides)
      .Set("pads", window.pads)
      .Set("dilations", window.dilations);
  return t.EmitOutput("MaxPool", {t.Input(0)}, std::move(attributes)).status();
}

absl::Status TranslateAveragePool(Translation& t) {
  PD_ASSIGN_OR_RETURN(Window window, ReadWindow(t, {}));
  int64_t count_pads = t.attributes.Int("count_include_pad", 0) != 0;
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (std::any_of(window.dilations.begin(), window.dilations.end(),
                  [](int64_t d) { return d != 1; }))
    return Unimplemented("dilations in average pooling");
  // What ceil mode adds is never counted, which pads cannot express.
  if (count_pads != 0 && window.grew)
    return Unimplemented("count_include_pad together with a ceil_mode that adds a window");
  Attributes attributes;
  attributes.Set("kernel", window.kernel)
      .Set("strides", window.strides)
      .Set("pads", window.pads)
      .Set("count_include_pad", count_pads);
  return t.EmitOutput("AveragePool", {t.Input(0)}, std::move(attributes)).status();
}

absl::Status TranslateGlobalPool(Translation& t) {
  const Shape& x = t.InputShape(0);
  if (x.rank() < 3 || x.rank() > 5)
    return Unimplemented("input {}; supported are 1 to 3 spatial axes", x.ToString());
  size_t k = static_cast<size_t>(x.rank() - 2);
  std::vector<int64_t> kernel(x.dims().begin() + 2, x.dims().end());
  Attributes attributes;
  attributes.Set("kernel", kernel)
      .Set("strides", std::vector<int64_t>(k, 1))
      .Set("pads", std::vector<int64_t>(2 * k, 0));
  if (t.node().op == "GlobalAveragePool") {
    attributes.Set("count_include_pad", int64_t{0});
    return t.EmitOutput("AveragePool", {t.Input(0)}, std::move(attributes)).status();
  }
  attributes.Set("dilations", std::vector<int64_t>(k, 1));
  return t.EmitOutput("MaxPool", {t.Input(0)}, std::move(attributes)).status();
}

}  // namespace

std::vector<Translator> PoolTranslators() {
  return {
      {"MaxPool", TranslateMaxPool, 1, 1, 2},
      {"AveragePool", TranslateAveragePool, 1, 1},
      {"GlobalAveragePool", TranslateGlobalPool, 1, 1},
      {"GlobalMaxPool", TranslateGlobalPool, 1, 1},
  };
}

}  // namespace pipedream::onnx_import
