// Elementwise activations and their gradients.
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

constexpr OpDef kOps[] = {
    {.name = "Relu", .infer = InferUnary, .gradient = ReluGradient},
    {.name = "Sigmoid", .infer = InferUnary, .gradient = SigmoidGradient},
    {.name = "Tanh", .infer = InferUnary, .gradient = TanhGradient},
    {.name = "HardSwish", .infer = InferUnary, .gradient = HardSwishGradient},
    {.name = "HardSigmoid", .infer = InferHardSigmoid, .gradient = HardSigmoidGradient},
    {.name = "Clip", .infer = InferClip, .gradient = ClipGradient},
    {.name = "ReluGrad", .infer = InferUnaryGrad},
    {.name = "SigmoidGrad", .infer = InferUnaryGrad},
    {.name = "TanhGrad", .infer = InferUnaryGrad},
    {.name = "HardSwishGrad", .infer = InferUnaryGrad},
    {.name = "HardSigmoidGrad", .infer = InferHardSigmoidGrad},
    {.name = "ClipGrad", .infer = InferClipGrad},
};

}  // namespace

std::span<const OpDef> ActivationOps() { return kOps; }

}  // namespace pipedream::op_defs
