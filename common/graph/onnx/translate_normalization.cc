#include "common/base/status.h"
#include "common/graph/onnx/fold.h"
#include "common/graph/onnx/proto.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

// Both the training and the inference form: the graph's form decides, not the file's.
absl::Status TranslateBatchNormalization(Translation& t) {
  for (int i = 1; i < 5; ++i)
    if (t.WantsOutput(i)) return Unimplemented("its output {} (statistics) is used", i);
  const Shape& x = t.InputShape(0);
  double epsilon = t.attributes.Float("epsilon", static_cast<double>(1e-5f));
  double momentum = t.attributes.Float("momentum", static_cast<double>(0.9f));
  int64_t spatial = t.attributes.Int("spatial", 1);
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (spatial != 1) return Unimplemented("statistics per position (spatial = 0)");
  if (x.rank() < 2) return InvalidArgument("input is {}, expected [N, C, ..]", x.ToString());
  PD_ASSIGN_OR_RETURN(ValueId mean, t.StateInput(3));
  PD_ASSIGN_OR_RETURN(ValueId variance, t.StateInput(4));
  Attributes attributes;
  attributes.Set("epsilon", epsilon);
  if (t.form() == GraphForm::kInference)
    return t
        .EmitOutput("BatchNormalizationInference",
                    {t.Input(0), t.Input(1), t.Input(2), mean, variance}, std::move(attributes))
        .status();
  int64_t channels = x[1];
  int64_t count = channels > 0 ? x.elements() / channels : 0;
  PD_ASSIGN_OR_RETURN(auto outputs,
                      t.EmitOutput("BatchNormalization", {t.Input(0), t.Input(1), t.Input(2)},
                                   std::move(attributes)));
  Attributes update;
  update.Set("momentum", momentum).Set("count", count);
  return t
      .Emit("UpdateRunningStatistics", {outputs[1], outputs[2], mean, variance}, std::move(update))
      .status();
}

absl::Status TranslateLayerNormalization(Translation& t) {
  for (int i = 1; i < 3; ++i)
    if (t.WantsOutput(i)) return Unimplemented("its output {} (statistics) is used", i);
  const Shape& x = t.InputShape(0);
  PD_ASSIGN_OR_RETURN(int64_t axis, NormalAxis(t.attributes.Int("axis", -1), x.rank()));
  double epsilon = t.attributes.Float("epsilon", static_cast<double>(1e-5f));
  int64_t stash_type = t.attributes.Int("stash_type", onnx::TensorProto::FLOAT);
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (stash_type != onnx::TensorProto::FLOAT)
    return Unimplemented("statistics in another type than float32 (stash_type {})", stash_type);
  Shape normalized(std::vector<int64_t>(x.dims().begin() + axis, x.dims().end()));
  std::vector<ValueId> inputs{t.Input(0)};
  for (int i : {1, 2}) {
    if (!t.HasInput(i)) continue;
    if (t.InputShape(i) != normalized)
      return Unimplemented("input {} is {}; only the shape of the normalized axes, {}, is", i,
                           t.InputShape(i).ToString(), normalized.ToString());
    inputs.push_back(t.Input(i));
  }
  return t
      .EmitOutput("LayerNormalization", std::move(inputs),
                  Attributes().Set("axis", axis).Set("epsilon", epsilon))
      .status();
}

absl::Status TranslateLrn(Translation& t) {
  Attributes attributes;
  int64_t size = t.attributes.Int("size", 0);
  attributes.Set("size", size)
      .Set("alpha", t.attributes.Float("alpha", static_cast<double>(1e-4f)))
      .Set("beta", t.attributes.Float("beta", 0.75))
      .Set("bias", t.attributes.Float("bias", 1));
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (size < 1) return InvalidArgument("attribute 'size' is {}, expected at least 1", size);
  return t.EmitOutput("LRN", {t.Input(0)}, std::move(attributes)).status();
}

}  // namespace

std::vector<Translator> NormalizationTranslators() {
  return {{"BatchNormalization", TranslateBatchNormalization, 5, 5, 5},
          {"LayerNormalization", TranslateLayerNormalization, 2, 3, 3},
          {"LRN", TranslateLrn, 1, 1}};
}

}  // namespace pipedream::onnx_import
