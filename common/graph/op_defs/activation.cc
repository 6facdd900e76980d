// Elementwise activations, roots and powers, and their gradients.
#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

Inferred InferHardSigmoid(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"alpha", "beta"}));
  return InferUnary(node, inputs);
}

Inferred InferHardSigmoidGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"alpha", "beta"}));
  return InferUnaryGrad(node, inputs);
}

Inferred InferPow(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"exponent"}));
  return InferUnary(node, inputs);
}

absl::Status CheckClip(const Node& node) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"min", "max"}));
  double min = node.attributes.Float("min");
  double max = node.attributes.Float("max");
  if (min <= max) return absl::OkStatus();
  return InvalidArgument("attribute min is {}, above max, {}", min, max);
}

Inferred InferClip(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckClip(node));
  return InferUnary(node, inputs);
}

Inferred InferClipGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckClip(node));
  return InferUnaryGrad(node, inputs);
}

// The gradient operator is the forward's name with "Grad"; it reads the output where that is
// enough, else the input.
absl::Status Gradient(GradientContext& context, std::string_view op, bool from_output) {
  const Node& node = context.node();
  ValueId read = from_output ? node.outputs[0] : node.inputs[0];
  PD_ASSIGN_OR_RETURN(ValueId dx,
                      AddOne(context, op, {context.output_gradient(0), read}, node.attributes));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

absl::Status ReluGradient(GradientContext& context) { return Gradient(context, "ReluGrad", true); }
absl::Status SigmoidGradient(GradientContext& context) {
  return Gradient(context, "SigmoidGrad", true);
}
absl::Status TanhGradient(GradientContext& context) { return Gradient(context, "TanhGrad", true); }
absl::Status HardSwishGradient(GradientContext& context) {
  return Gradient(context, "HardSwishGrad", false);
}
absl::Status HardSigmoidGradient(GradientContext& context) {
  return Gradient(context, "HardSigmoidGrad", false);
}
absl::Status ClipGradient(GradientContext& context) { return Gradient(context, "ClipGrad", false); }
absl::Status ErfGradient(GradientContext& context) { return Gradient(context, "ErfGrad", false); }
absl::Status GeluGradient(GradientContext& context) { return Gradient(context, "GeluGrad", false); }
absl::Status GeluTanhGradient(GradientContext& context) {
  return Gradient(context, "GeluTanhGrad", false);
}

// y = sqrt(x): dx = dy / (2 y).
absl::Status SqrtGradient(GradientContext& context) {
  PD_ASSIGN_OR_RETURN(
      ValueId dx, AddOne(context, "Div", {context.output_gradient(0), context.node().outputs[0]}));
  PD_ASSIGN_OR_RETURN(dx, Scale(context, dx, 0.5));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

// y = x^p: dx = p x^(p-1) dy.
absl::Status PowGradient(GradientContext& context) {
  const Node& node = context.node();
  double exponent = node.attributes.Float("exponent");
  ValueId dx = context.output_gradient(0);
  if (exponent != 1) {
    ValueId power = node.inputs[0];
    if (exponent != 2) {
      PD_ASSIGN_OR_RETURN(
          power, AddOne(context, "Pow", {power}, Attributes().Set("exponent", exponent - 1)));
    }
    PD_ASSIGN_OR_RETURN(dx, AddOne(context, "Mul", {dx, power}));
  }
  PD_ASSIGN_OR_RETURN(dx, Scale(context, dx, exponent));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

constexpr OpDef kActivationOps[] = {
    {.name = "Relu", .infer = InferUnary, .gradient = ReluGradient},
    {.name = "Sigmoid", .infer = InferUnary, .gradient = SigmoidGradient},
    {.name = "Tanh", .infer = InferUnary, .gradient = TanhGradient},
    {.name = "HardSwish", .infer = InferUnary, .gradient = HardSwishGradient},
    {.name = "HardSigmoid", .infer = InferHardSigmoid, .gradient = HardSigmoidGradient},
    {.name = "Clip", .infer = InferClip, .gradient = ClipGradient},
    {.name = "Erf", .infer = InferUnary, .gradient = ErfGradient},
    {.name = "Gelu", .infer = InferUnary, .gradient = GeluGradient},
    {.name = "GeluTanh", .infer = InferUnary, .gradient = GeluTanhGradient},
    {.name = "Sqrt", .infer = InferUnary, .gradient = SqrtGradient},
    {.name = "Pow", .infer = InferPow, .gradient = PowGradient},
    {.name = "ReluGrad", .infer = InferUnaryGrad},
    {.name = "SigmoidGrad", .infer = InferUnaryGrad},
    {.name = "TanhGrad", .infer = InferUnaryGrad},
    {.name = "HardSwishGrad", .infer = InferUnaryGrad},
    {.name = "HardSigmoidGrad", .infer = InferHardSigmoidGrad},
    {.name = "ClipGrad", .infer = InferClipGrad},
    {.name = "ErfGrad", .infer = InferUnaryGrad},
    {.name = "GeluGrad", .infer = InferUnaryGrad},
    {.name = "GeluTanhGrad", .infer = InferUnaryGrad},
};

}  // namespace

std::span<const OpDef> ActivationOps() { return kActivationOps; }

}  // namespace pipedream::op_defs
