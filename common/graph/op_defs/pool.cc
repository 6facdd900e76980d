// MaxPool, AveragePool and their gradients.
#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"
#include "common/graph/op_defs/spatial.h"

namespace pipedream::op_defs {
namespace {

absl::StatusOr<Shape> PoolShape(const Node& node, const Shape& x, bool dilated) {
  PD_ASSIGN_OR_RETURN(Window window, ReadWindow(node, x, dilated));
  PD_ASSIGN_OR_RETURN(Shape y, Slide(window, x, x[1]));
  PD_RETURN_IF_ERROR(CheckWindowsTouch(window, x, y));
  return y;
}

Inferred InferMaxPool(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}}));
  PD_ASSIGN_OR_RETURN(Shape y, PoolShape(node, inputs[0].shape, true));
  return Types{Float32(std::move(y)), Opaque()};
}

Inferred InferAveragePool(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}}));
  PD_ASSIGN_OR_RETURN(Shape y, PoolShape(node, inputs[0].shape, false));
  return Types{Float32(std::move(y))};
}

Inferred InferMaxPoolGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"dy"}, {"workspace", DataType::kOpaque}}));
  PD_ASSIGN_OR_RETURN(Shape x, RequireShape(node, "x_shape"));
  PD_ASSIGN_OR_RETURN(Shape y, PoolShape(node, x, true));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 0, "dy", y));
  return Types{Float32(std::move(x))};
}

Inferred InferAveragePoolGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"dy"}}));
  PD_ASSIGN_OR_RETURN(Shape x, RequireShape(node, "x_shape"));
  PD_ASSIGN_OR_RETURN(Shape y, PoolShape(node, x, false));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 0, "dy", y));
  return Types{Float32(std::move(x))};
}

absl::Status PoolGradient(GradientContext& context, std::string_view op,
                          std::vector<ValueId> inputs) {
  const Node& node = context.node();
  Attributes attributes = node.attributes;
  attributes.Set("x_shape", ShapeOf(context, node.inputs[0]).dims());
  PD_ASSIGN_OR_RETURN(ValueId dx, AddOne(context, op, std::move(inputs), std::move(attributes)));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

absl::Status MaxPoolGradient(GradientContext& context) {
  ValueId workspace = context.node().outputs[1];
  if (workspace == kNoValue) return InvalidArgument("has no workspace, which its gradient reads");
  return PoolGradient(context, "MaxPoolGrad", {context.output_gradient(0), workspace});
}

absl::Status AveragePoolGradient(GradientContext& context) {
  return PoolGradient(context, "AveragePoolGrad", {context.output_gradient(0)});
}

double WindowElements(const Node& node) {
  return static_cast<double>(Shape(node.attributes.Ints("kernel")).elements());
}

Cost PoolCost(const Node& node, const Types& inputs, const Types& outputs) {
  return {static_cast<double>(outputs[0].shape.elements()) * WindowElements(node),
          TransferBytes(inputs, outputs)};
}

Cost PoolGradCost(const Node& node, const Types& inputs, const Types& outputs) {
  return {static_cast<double>(inputs[0].shape.elements()) * WindowElements(node),
          TransferBytes(inputs, outputs)};
}

constexpr OpDef kPoolOps[] = {
    {.name = "MaxPool",
     .infer = InferMaxPool,
     .gradient = MaxPoolGradient,
     .cost = PoolCost,
     .optional_outputs = 0b10},
    {.name = "AveragePool",
     .infer = InferAveragePool,
     .gradient = AveragePoolGradient,
     .cost = PoolCost},
    {.name = "MaxPoolGrad", .infer = InferMaxPoolGrad},
    {.name = "AveragePoolGrad", .infer = InferAveragePoolGrad, .cost = PoolGradCost},
};

}  // namespace

std::span<const OpDef> PoolOps() { return kPoolOps; }

}  // namespace pipedream::op_defs
