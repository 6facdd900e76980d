// Conv and its two gradients.
#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"
#include "common/graph/op_defs/spatial.h"

namespace pipedream::op_defs {
namespace {

// The output's shape, with everything about x and w checked.
absl::StatusOr<Shape> ConvShape(const Node& node, const Shape& x, const Shape& w) {
  PD_ASSIGN_OR_RETURN(Window window, ReadWindow(node, x, /*dilated=*/true));
  PD_RETURN_IF_ERROR(CheckHas(node, {"group"}));
  int64_t group = node.attributes.Int("group");
  if (group < 1 || x[1] % group != 0) {
    return InvalidArgument("attribute group is {}, which does not divide the {} channels of x",
                           group, x[1]);
  }
  if (w.rank() != x.rank() || w[1] != x[1] / group) {
    return InvalidArgument("w is {}, expected [M, {}, kernel..] of rank {} for x {} and group {}",
                           w.ToString(), x[1] / group, x.rank(), x.ToString(), group);
  }
  if (w[0] < 1 || w[0] % group != 0) {
    return InvalidArgument("attribute group is {}, which does not divide the {} channels of y",
                           group, w[0]);
  }
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    if (w[static_cast<int>(i) + 2] != window.kernel[i]) {
      return InvalidArgument("w is {}, but attribute kernel is {}", w.ToString(),
                             Shape(window.kernel).ToString());
    }
  }
  return Slide(window, x, w[0]);
}

Inferred InferConv(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}, {"w"}, {.name = "b", .optional = true}}));
  PD_ASSIGN_OR_RETURN(Shape y, ConvShape(node, inputs[0].shape, inputs[1].shape));
  if (Present(node, 2)) PD_RETURN_IF_ERROR(CheckShape(inputs, 2, "b", Shape({y[1]})));
  return Types{Float32(std::move(y))};
}

Inferred InferConvGradInput(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"dy"}, {"w"}}));
  PD_ASSIGN_OR_RETURN(Shape x, RequireShape(node, "x_shape"));
  PD_ASSIGN_OR_RETURN(Shape y, ConvShape(node, x, inputs[1].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 0, "dy", y));
  return Types{Float32(std::move(x))};
}

Inferred InferConvGradWeight(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}, {"dy"}}));
  PD_ASSIGN_OR_RETURN(Shape w, RequireShape(node, "w_shape"));
  PD_ASSIGN_OR_RETURN(Shape y, ConvShape(node, inputs[0].shape, w));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "dy", y));
  Shape bias({w[0]});
  return Types{Float32(std::move(w)), Float32(std::move(bias))};
}

absl::Status ConvGradient(GradientContext& context) {
  const Node& node = context.node();
  ValueId dy = context.output_gradient(0);
  if (context.wants(1) || context.wants(2)) {
    Attributes attributes = node.attributes;
    attributes.Set("w_shape", ShapeOf(context, node.inputs[1]).dims());
    PD_ASSIGN_OR_RETURN(std::vector<ValueId> gradients,
                        context.Add("ConvGradWeight", {node.inputs[0], dy}, std::move(attributes)));
    if (context.wants(1)) context.SetInputGradient(1, gradients[0]);
    if (context.wants(2)) context.SetInputGradient(2, gradients[1]);
  }
  if (context.wants(0)) {
    Attributes attributes = node.attributes;
    attributes.Set("x_shape", ShapeOf(context, node.inputs[0]).dims());
    PD_ASSIGN_OR_RETURN(
        ValueId dx, AddOne(context, "ConvGradInput", {dy, node.inputs[1]}, std::move(attributes)));
    context.SetInputGradient(0, dx);
  }
  return absl::OkStatus();
}

// Every output element meets each weight of its group once.
double Multiplications(const Shape& y, const Shape& w) {
  return static_cast<double>(y.elements()) * static_cast<double>(w.elements()) /
         static_cast<double>(w[0]);
}

Cost ConvCost(const Node& node, const Types& inputs, const Types& outputs) {
  double bias = Present(node, 2) ? static_cast<double>(outputs[0].shape.elements()) : 0;
  return {2 * Multiplications(outputs[0].shape, inputs[1].shape) + bias,
          TransferBytes(inputs, outputs)};
}

Cost ConvGradInputCost(const Node&, const Types& inputs, const Types& outputs) {
  return {2 * Multiplications(inputs[0].shape, inputs[1].shape), TransferBytes(inputs, outputs)};
}

Cost ConvGradWeightCost(const Node& node, const Types& inputs, const Types& outputs) {
  bool bias = node.outputs.size() > 1 && node.outputs[1] != kNoValue;
  Shape w(node.attributes.Ints("w_shape"));
  return {2 * Multiplications(inputs[1].shape, w) +
              (bias ? static_cast<double>(inputs[1].shape.elements()) : 0),
          TransferBytes(inputs, outputs)};
}

constexpr OpDef kConvOps[] = {
    {.name = "Conv", .infer = InferConv, .gradient = ConvGradient, .cost = ConvCost},
    {.name = "ConvGradInput", .infer = InferConvGradInput, .cost = ConvGradInputCost},
    {.name = "ConvGradWeight",
     .infer = InferConvGradWeight,
     .cost = ConvGradWeightCost,
     .optional_outputs = 0b10},
};

}  // namespace

std::span<const OpDef> ConvOps() { return kConvOps; }

}  // namespace pipedream::op_defs
