#include <limits>

#include "common/base/status.h"
#include "common/graph/onnx/fold.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

// Operators that are canonical under their own name.
absl::Status TranslateUnary(Translation& t) {
  return t.EmitOutput(t.node().op, {t.Input(0)}).status();
}
absl::Status TranslateBinary(Translation& t) {
  return t.EmitOutput(t.node().op, {t.Input(0), t.Input(1)}).status();
}

// The number by which Mul scales its other input, if it is one.
bool ScaleFactor(Translation& t, int constant, double* factor) {
  int other = 1 - constant;
  if (!t.IsConstant(constant) || t.IsConstant(other)) return false;
  const Shape& shape = t.InputShape(constant);
  if (shape.elements() != 1 || shape.rank() > t.InputShape(other).rank()) return false;
  if (t.InputType(constant) != DataType::kFloat32) return false;
  auto value = t.ConstantFloat(constant);
  if (value.ok()) *factor = *value;
  return value.ok();
}

absl::Status TranslateMul(Translation& t) {
  double factor = 0;
  for (int constant : {1, 0})
    if (ScaleFactor(t, constant, &factor))
      return t.EmitOutput("Scale", {t.Input(1 - constant)}, Attributes().Set("factor", factor))
          .status();
  return TranslateBinary(t);
}

absl::Status TranslateNeg(Translation& t) {
  return t.EmitOutput("Scale", {t.Input(0)}, Attributes().Set("factor", -1.0)).status();
}

absl::Status TranslateSum(Translation& t) {
  if (t.input_count() == 1) return t.Alias(0);
  for (int i = 0; i < t.input_count(); ++i)
    if (!t.HasInput(i)) return InvalidArgument("input {} is missing", i);
  ValueId sum = t.Input(0);
  for (int i = 1; i + 1 < t.input_count(); ++i) {
    PD_ASSIGN_OR_RETURN(auto outputs, t.Emit("Add", {sum, t.Input(i)}));
    sum = outputs[0];
  }
  return t.EmitOutput("Add", {sum, t.Input(t.input_count() - 1)}).status();
}

absl::Status TranslateHardSigmoid(Translation& t) {
  Attributes attributes;
  attributes.Set("alpha", t.attributes.Float("alpha", static_cast<double>(0.2f)))
      .Set("beta", t.attributes.Float("beta", 0.5));
  PD_RETURN_IF_ERROR(t.attributes.status());
  return t.EmitOutput("HardSigmoid", {t.Input(0)}, std::move(attributes)).status();
}

absl::Status TranslateClip(Translation& t) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double min = -kInfinity, max = kInfinity;
  if (t.opset() < 11) {
    min = t.attributes.Float("min", -kInfinity);
    max = t.attributes.Float("max", kInfinity);
    PD_RETURN_IF_ERROR(t.attributes.status());
    // The old default limits are the largest floats.
    if (min <= std::numeric_limits<float>::lowest()) min = -kInfinity;
    if (max >= std::numeric_limits<float>::max()) max = kInfinity;
  } else {
    if (t.HasInput(1)) {
      PD_ASSIGN_OR_RETURN(min, t.ConstantFloat(1));
    }
    if (t.HasInput(2)) {
      PD_ASSIGN_OR_RETURN(max, t.ConstantFloat(2));
    }
  }
  return t.EmitOutput("Clip", {t.Input(0)}, Attributes().Set("min", min).Set("max", max)).status();
}

absl::Status TranslatePow(Translation& t) {
  if (!t.IsConstant(1)) return Unimplemented("an exponent computed at run time");
  if (t.InputShape(1).elements() != 1)
    return Unimplemented("exponents of shape {}", t.InputShape(1).ToString());
  if (t.InputShape(1).rank() > t.InputShape(0).rank())
    return Unimplemented("an exponent of more axes than the base");
  PD_ASSIGN_OR_RETURN(double exponent, t.ConstantFloat(1));
  return t.EmitOutput("Pow", {t.Input(0)}, Attributes().Set("exponent", exponent)).status();
}

absl::Status TranslateGelu(Translation& t) {
  std::string approximate = t.attributes.String("approximate", "none");
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (approximate == "none") return t.EmitOutput("Gelu", {t.Input(0)}).status();
  if (approximate == "tanh") return t.EmitOutput("GeluTanh", {t.Input(0)}).status();
  return InvalidArgument("attribute 'approximate' is '{}', expected 'none' or 'tanh'", approximate);
}

// Between floating types: they compute as one.
absl::Status TranslateCast(Translation& t) {
  int64_t to = t.attributes.Int("to", 0);
  PD_RETURN_IF_ERROR(t.attributes.status());
  DataType type;
  bool known = to >= 0 && to < 1000 && ComputeType(static_cast<int>(to), &type);
  if (!known || type != t.InputType(0))
    return Unimplemented("a cast from {} to {} of a tensor computed at run time",
                         ToString(t.InputType(0)), OnnxTypeName(static_cast<int>(to)));
  return t.Alias(0);
}

absl::Status TranslateIdentity(Translation& t) { return t.Alias(0); }

absl::Status TranslateDropout(Translation& t) {
  if (t.WantsOutput(1)) return Unimplemented("its mask is used");
  if (t.form() == GraphForm::kInference) return t.Alias(0);
  double ratio = 0.5;
  if (t.opset() < 12)
    ratio = t.attributes.Float("ratio", 0.5);
  else if (t.HasInput(1)) {
    PD_ASSIGN_OR_RETURN(ratio, t.ConstantFloat(1));
  }
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (!(ratio >= 0 && ratio < 1))
    return InvalidArgument("the ratio is {}, expected at least 0 and less than 1", ratio);
  if (ratio == 0) return t.Alias(0);
  Attributes attributes;
  attributes.Set("ratio", ratio).Set("key", StableHash(t.node().name));
  return t.EmitOutput("Dropout", {t.Input(0)}, std::move(attributes)).status();
}

}  // namespace

std::vector<Translator> ElementwiseTranslators() {
  constexpr int kMany = 1 << 20;
  return {
      {"Add", TranslateBinary, 2, 2},
      {"Sub", TranslateBinary, 2, 2},
      {"Mul", TranslateMul, 2, 2},
      {"Div", TranslateBinary, 2, 2},
      {"Neg", TranslateNeg, 1, 1},
      {"Sum", TranslateSum, 1, kMany},
      {"Relu", TranslateUnary, 1, 1},
      {"Sigmoid", TranslateUnary, 1, 1},
      {"Tanh", TranslateUnary, 1, 1},
      {"Erf", TranslateUnary, 1, 1},
      {"Sqrt", TranslateUnary, 1, 1},
      {"Pow", TranslatePow, 2, 2},
      {"Gelu", TranslateGelu, 1, 1},
      {"HardSwish", TranslateUnary, 1, 1},
      {"HardSigmoid", TranslateHardSigmoid, 1, 1},
      {"Clip", TranslateClip, 1, 3},
      {"Cast", TranslateCast, 1, 1},
      {"Identity", TranslateIdentity, 1, 1},
      {"Dropout", TranslateDropout, 1, 3, 2},
  };
}

}  // namespace pipedream::onnx_import
