// Batch normalisation in its forms, and local response normalisation.
#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

absl::StatusOr<Shape> Channels(const Shape& x) {
  if (x.rank() < 2) {
    return InvalidArgument("x is {}, expected at least the axes [N, C]", x.ToString());
  }
  return Shape({x[1]});
}

Inferred InferBatchNormalization(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}, {"scale"}, {"bias"}}));
  PD_RETURN_IF_ERROR(CheckHas(node, {"epsilon"}));
  PD_ASSIGN_OR_RETURN(Shape channels, Channels(inputs[0].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "scale", channels));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 2, "bias", channels));
  return Types{inputs[0], Float32(channels), Float32(channels)};
}

Inferred InferBatchNormalizationInference(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(
      CheckInputs(node, inputs, {{"x"}, {"scale"}, {"bias"}, {"mean"}, {"variance"}}));
  PD_RETURN_IF_ERROR(CheckHas(node, {"epsilon"}));
  PD_ASSIGN_OR_RETURN(Shape channels, Channels(inputs[0].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "scale", channels));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 2, "bias", channels));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 3, "mean", channels));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 4, "variance", channels));
  return Types{inputs[0]};
}

Inferred InferBatchNormalizationGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"dy"}, {"x"}, {"scale"}, {"mean"}, {"variance"}}));
  PD_RETURN_IF_ERROR(CheckHas(node, {"epsilon"}));
  PD_ASSIGN_OR_RETURN(Shape channels, Channels(inputs[1].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 0, "dy", inputs[1].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 2, "scale", channels));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 3, "mean", channels));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 4, "variance", channels));
  return Types{inputs[1], Float32(channels), Float32(channels)};
}

absl::Status BatchNormalizationGradient(GradientContext& context) {
  const Node& node = context.node();
  if (context.output_gradient(1) != kNoValue || context.output_gradient(2) != kNoValue) {
    return InvalidArgument("no gradient passes through the batch statistics, only through y");
  }
  Attributes attributes;
  attributes.Set("epsilon", node.attributes.Float("epsilon"));
  PD_ASSIGN_OR_RETURN(std::vector<ValueId> gradients,
                      context.Add("BatchNormalizationGrad",
                                  {context.output_gradient(0), node.inputs[0], node.inputs[1],
                                   node.outputs[1], node.outputs[2]},
                                  std::move(attributes)));
  for (int i = 0; i < 3; ++i) {
    if (context.wants(i)) context.SetInputGradient(i, gradients[i]);
  }
  return absl::OkStatus();
}

Inferred InferUpdateRunningStatistics(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(
      CheckInputs(node, inputs, {{"mean"}, {"variance"}, {"running_mean"}, {"running_variance"}}));
  PD_RETURN_IF_ERROR(CheckHas(node, {"momentum", "count"}));
  if (node.attributes.Int("count") < 1) {
    return InvalidArgument("attribute count is {}, expected the number of values per channel",
                           node.attributes.Int("count"));
  }
  if (inputs[0].shape.rank() != 1) {
    return InvalidArgument("input 0 (mean) is {}, expected [C]", inputs[0].shape.ToString());
  }
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "variance", inputs[0].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 2, "running_mean", inputs[0].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 3, "running_variance", inputs[0].shape));
  return Types{};
}

absl::Status CheckLrn(const Node& node, const Shape& x) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"size", "alpha", "beta", "bias"}));
  if (node.attributes.Int("size") < 1) {
    return InvalidArgument("attribute size is {}, expected at least 1",
                           node.attributes.Int("size"));
  }
  return Channels(x).status();
}

Inferred InferLrn(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}}));
  PD_RETURN_IF_ERROR(CheckLrn(node, inputs[0].shape));
  return Types{inputs[0], Opaque()};
}

Inferred InferLrnGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"dy"}, {"x"}, {"workspace", DataType::kOpaque}}));
  PD_RETURN_IF_ERROR(CheckLrn(node, inputs[1].shape));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 0, "dy", inputs[1].shape));
  return Types{inputs[1]};
}

absl::Status LrnGradient(GradientContext& context) {
  const Node& node = context.node();
  if (node.outputs[1] == kNoValue) {
    return InvalidArgument("has no workspace, which its gradient reads");
  }
  PD_ASSIGN_OR_RETURN(
      ValueId dx,
      AddOne(context, "LRNGrad", {context.output_gradient(0), node.inputs[0], node.outputs[1]},
             node.attributes));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

constexpr OpDef kNormalizationOps[] = {
    {.name = "BatchNormalization",
     .infer = InferBatchNormalization,
     .gradient = BatchNormalizationGradient},
    {.name = "BatchNormalizationInference", .infer = InferBatchNormalizationInference},
    {.name = "BatchNormalizationGrad", .infer = InferBatchNormalizationGrad},
    {.name = "UpdateRunningStatistics",
     .infer = InferUpdateRunningStatistics,
     .cost = CostPerInput},
    {.name = "LRN", .infer = InferLrn, .gradient = LrnGradient, .optional_outputs = 0b10},
    {.name = "LRNGrad", .infer = InferLrnGrad},
};

}  // namespace

std::span<const OpDef> NormalizationOps() { return kNormalizationOps; }

}  // namespace pipedream::op_defs
