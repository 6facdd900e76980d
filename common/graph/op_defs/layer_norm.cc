// Layer normalisation: over the axes from `axis` on, of each position before them apart.
#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

// x's axes before `axis` and from it on.
struct Axes {
  Shape positions;
  Shape normalized;
};

absl::StatusOr<Axes> AxesOf(const Node& node, const Shape& x) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"axis", "epsilon"}));
  int64_t axis = node.attributes.Int("axis");
  if (axis < 0 || axis >= x.rank()) {
    return InvalidArgument("attribute axis is {}, expected an axis of {}", axis, x.ToString());
  }
  auto middle = x.dims().begin() + axis;
  Axes axes{Shape(std::vector<int64_t>(x.dims().begin(), middle)),
            Shape(std::vector<int64_t>(middle, x.dims().end()))};
  if (axes.normalized.elements() > 0) return axes;
  return InvalidArgument("x is {}: nothing lies along the axes from {} on", x.ToString(), axis);
}

Inferred InferLayerNormalization(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(
      CheckInputs(node, inputs, {{"x"}, {"scale"}, {.name = "bias", .optional = true}}));
  PD_ASSIGN_OR_RETURN(Axes axes, AxesOf(node, inputs[0].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "scale", axes.normalized));
  if (Present(node, 2)) PD_RETURN_IF_ERROR(CheckShape(inputs, 2, "bias", axes.normalized));
  return Types{inputs[0], Float32(axes.positions), Float32(axes.positions)};
}

Inferred InferLayerNormalizationGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(
      CheckInputs(node, inputs, {{"dy"}, {"x"}, {"scale"}, {"mean"}, {"inverse_deviation"}}));
  PD_ASSIGN_OR_RETURN(Axes axes, AxesOf(node, inputs[1].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 0, "dy", inputs[1].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 2, "scale", axes.normalized));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 3, "mean", axes.positions));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 4, "inverse_deviation", axes.positions));
  return Types{inputs[1], inputs[2], inputs[2]};
}

absl::Status LayerNormalizationGradient(GradientContext& context) {
  const Node& node = context.node();
  if (context.output_gradient(1) != kNoValue || context.output_gradient(2) != kNoValue) {
    return InvalidArgument("no gradient passes through the statistics, only through y");
  }
  if (node.outputs[1] == kNoValue || node.outputs[2] == kNoValue) {
    return InvalidArgument("has no statistics, which its gradient reads");
  }
  PD_ASSIGN_OR_RETURN(std::vector<ValueId> gradients,
                      context.Add("LayerNormalizationGrad",
                                  {context.output_gradient(0), node.inputs[0], node.inputs[1],
                                   node.outputs[1], node.outputs[2]},
                                  node.attributes));
  for (int i = 0; i < 3; ++i) {
    if (context.wants(i)) context.SetInputGradient(i, gradients[i]);
  }
  return absl::OkStatus();
}

// Per element: two for the mean and the variance each, four for y.
Cost LayerNormCost(const Node&, const Types& inputs, const Types& outputs) {
  return {8 * static_cast<double>(inputs[0].shape.elements()), TransferBytes(inputs, outputs)};
}

constexpr OpDef kLayerNormOps[] = {
    {.name = "LayerNormalization",
     .infer = InferLayerNormalization,
     .gradient = LayerNormalizationGradient,
     .cost = LayerNormCost,
     .optional_outputs = 0b110},
    {.name = "LayerNormalizationGrad",
     .infer = InferLayerNormalizationGrad,
     .cost = LayerNormCost,
     .optional_outputs = 0b110},
};

}  // namespace

std::span<const OpDef> LayerNormOps() { return kLayerNormOps; }

}  // namespace pipedream::op_defs
