// Losses: means over all positions, and their gradients.
#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

absl::StatusOr<Shape> Positions(const Shape& logits) {
  if (logits.rank() < 1 || logits.elements() < 1) {
    return InvalidArgument("input 0 (logits) is {}, expected [.., C] with C >= 1",
                           logits.ToString());
  }
  return Shape(std::vector<int64_t>(logits.dims().begin(), logits.dims().end() - 1));
}

Inferred InferCrossEntropy(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"logits"}, {"labels", DataType::kInt64}}));
  PD_ASSIGN_OR_RETURN(Shape positions, Positions(inputs[0].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "labels", positions));
  return Types{Float32(Shape()), inputs[0], {DataType::kInt64, Shape()}};
}

Inferred InferCrossEntropyGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(
      CheckInputs(node, inputs, {{"probabilities"}, {"labels", DataType::kInt64}, {"dloss"}}));
  PD_ASSIGN_OR_RETURN(Shape positions, Positions(inputs[0].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "labels", positions));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 2, "dloss", Shape()));
  return Types{inputs[0]};
}

Inferred InferMse(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"prediction"}, {"target"}}));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "target", inputs[0].shape));
  return Types{Float32(Shape())};
}

Inferred InferMseGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"prediction"}, {"target"}, {"dloss"}}));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "target", inputs[0].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 2, "dloss", Shape()));
  return Types{inputs[0]};
}

absl::Status CrossEntropyGradient(GradientContext& context) {
  const Node& node = context.node();
  if (context.output_gradient(1) != kNoValue) {
    return InvalidArgument("no gradient passes through its probabilities, only through the loss");
  }
  PD_ASSIGN_OR_RETURN(ValueId gradient,
                      AddOne(context, "CrossEntropyGrad",
                             {node.outputs[1], node.inputs[1], context.output_gradient(0)}));
  context.SetInputGradient(0, gradient);
  return absl::OkStatus();
}

absl::Status MseGradient(GradientContext& context) {
  const Node& node = context.node();
  PD_ASSIGN_OR_RETURN(
      ValueId gradient,
      AddOne(context, "MseGrad", {node.inputs[0], node.inputs[1], context.output_gradient(0)}));
  if (context.wants(1)) {
    PD_ASSIGN_OR_RETURN(ValueId target, Scale(context, gradient, -1));
    context.SetInputGradient(1, target);
  }
  if (context.wants(0)) context.SetInputGradient(0, gradient);
  return absl::OkStatus();
}

constexpr OpDef kLossOps[] = {
    {.name = "CrossEntropy",
     .infer = InferCrossEntropy,
     .gradient = CrossEntropyGradient,
     .cost = CostPerInput},
    {.name = "CrossEntropyGrad", .infer = InferCrossEntropyGrad},
    {.name = "Mse", .infer = InferMse, .gradient = MseGradient, .cost = CostPerInput},
    {.name = "MseGrad", .infer = InferMseGrad},
};

}  // namespace

std::span<const OpDef> LossOps() { return kLossOps; }

}  // namespace pipedream::op_defs
