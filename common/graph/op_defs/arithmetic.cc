// Add, Sub, Mul, Div with broadcasting, and Scale.
#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

Inferred InferBinary(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"a"}, {"b"}}));
  PD_ASSIGN_OR_RETURN(Shape y, BroadcastShapes(inputs[0].shape, inputs[1].shape));
  return Types{Float32(std::move(y))};
}

Inferred InferScale(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"factor"}));
  return InferUnary(node, inputs);
}

// Sums `gradient` to the shape of input `index`, scales it, and sets it.
absl::Status SetSummed(GradientContext& context, int index, ValueId gradient, double factor = 1) {
  Shape shape = ShapeOf(context, context.node().inputs[index]);
  PD_ASSIGN_OR_RETURN(ValueId summed, SumTo(context, gradient, std::move(shape)));
  PD_ASSIGN_OR_RETURN(summed, Scale(context, summed, factor));
  context.SetInputGradient(index, summed);
  return absl::OkStatus();
}

absl::Status AddSubGradient(GradientContext& context, double sign) {
  ValueId dy = context.output_gradient(0);
  if (context.wants(1)) PD_RETURN_IF_ERROR(SetSummed(context, 1, dy, sign));
  if (context.wants(0)) PD_RETURN_IF_ERROR(SetSummed(context, 0, dy));
  return absl::OkStatus();
}

absl::Status AddGradient(GradientContext& context) { return AddSubGradient(context, 1); }
absl::Status SubGradient(GradientContext& context) { return AddSubGradient(context, -1); }

absl::Status MulGradient(GradientContext& context) {
  const Node& node = context.node();
  ValueId dy = context.output_gradient(0);
  for (int index : {1, 0}) {
    if (!context.wants(index)) continue;
    PD_ASSIGN_OR_RETURN(ValueId product, AddOne(context, "Mul", {dy, node.inputs[1 - index]}));
    PD_RETURN_IF_ERROR(SetSummed(context, index, product));
  }
  return absl::OkStatus();
}

// y = a / b: da = dy / b, db = -(dy / b) y.
absl::Status DivGradient(GradientContext& context) {
  const Node& node = context.node();
  PD_ASSIGN_OR_RETURN(ValueId quotient,
                      AddOne(context, "Div", {context.output_gradient(0), node.inputs[1]}));
  if (context.wants(1)) {
    PD_ASSIGN_OR_RETURN(ValueId product, AddOne(context, "Mul", {quotient, node.outputs[0]}));
    PD_RETURN_IF_ERROR(SetSummed(context, 1, product, -1));
  }
  if (context.wants(0)) PD_RETURN_IF_ERROR(SetSummed(context, 0, quotient));
  return absl::OkStatus();
}

absl::Status ScaleGradient(GradientContext& context) {
  PD_ASSIGN_OR_RETURN(ValueId dx, Scale(context, context.output_gradient(0),
                                        context.node().attributes.Float("factor")));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

constexpr OpDef kArithmeticOps[] = {
    {.name = "Add", .infer = InferBinary, .gradient = AddGradient},
    {.name = "Sub", .infer = InferBinary, .gradient = SubGradient},
    {.name = "Mul", .infer = InferBinary, .gradient = MulGradient},
    {.name = "Div", .infer = InferBinary, .gradient = DivGradient},
    {.name = "Scale", .infer = InferScale, .gradient = ScaleGradient},
};

}  // namespace

std::span<const OpDef> ArithmeticOps() { return kArithmeticOps; }

}  // namespace pipedream::op_defs
