// ReduceMean, ReduceSum and SumTo, the adjoint of broadcasting.
#include <fmt/format.h>

#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

// x with ones in place of the reduced axes.
absl::StatusOr<Shape> KeptShape(const Node& node, const Shape& x) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"axes"}));
  std::vector<int64_t> axes = node.attributes.Ints("axes");
  Shape kept = x;
  int64_t previous = -1;
  for (int64_t axis : axes) {
    if (axis <= previous || axis >= x.rank()) {
      return InvalidArgument("attribute axes is [{}], expected ascending axes of {}",
                             fmt::join(axes, ", "), x.ToString());
    }
    kept[static_cast<int>(axis)] = 1;
    previous = axis;
  }
  return kept;
}

Inferred InferReduce(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}}));
  PD_ASSIGN_OR_RETURN(Shape kept, KeptShape(node, inputs[0].shape));
  if (node.attributes.Int("keepdims") != 0) return Types{Float32(std::move(kept))};
  std::vector<int64_t> dims;
  std::vector<int64_t> axes = node.attributes.Ints("axes");
  size_t next = 0;
  for (int i = 0; i < kept.rank(); ++i) {
    if (next < axes.size() && axes[next] == i) {
      ++next;
    } else {
      dims.push_back(kept[i]);
    }
  }
  return Types{Float32(Shape(std::move(dims)))};
}

Inferred InferSumTo(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}}));
  PD_ASSIGN_OR_RETURN(Shape y, RequireShape(node, "shape"));
  if (!BroadcastsTo(y, inputs[0].shape)) {
    return InvalidArgument("attribute shape is {}, which does not broadcast to the input's {}",
                           y.ToString(), inputs[0].shape.ToString());
  }
  return Types{Float32(std::move(y))};
}

absl::StatusOr<ValueId> Expand(GradientContext& context, ValueId value, const Shape& shape) {
  if (ShapeOf(context, value) == shape) return value;
  return AddOne(context, "Expand", {value}, Attributes().Set("shape", shape.dims()));
}

absl::Status ReduceGradient(GradientContext& context, bool mean) {
  const Node& node = context.node();
  Shape x = ShapeOf(context, node.inputs[0]);
  PD_ASSIGN_OR_RETURN(Shape kept, KeptShape(node, x));
  double count = static_cast<double>(x.elements()) / static_cast<double>(kept.elements());
  PD_ASSIGN_OR_RETURN(ValueId dx, Reshape(context, context.output_gradient(0), std::move(kept)));
  // Scaled while it is small.
  PD_ASSIGN_OR_RETURN(dx, Scale(context, dx, mean ? 1 / count : 1));
  PD_ASSIGN_OR_RETURN(dx, Expand(context, dx, x));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

absl::Status ReduceMeanGradient(GradientContext& context) { return ReduceGradient(context, true); }
absl::Status ReduceSumGradient(GradientContext& context) { return ReduceGradient(context, false); }

absl::Status SumToGradient(GradientContext& context) {
  Shape x = ShapeOf(context, context.node().inputs[0]);
  PD_ASSIGN_OR_RETURN(ValueId dx, Expand(context, context.output_gradient(0), x));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

constexpr OpDef kReduceOps[] = {
    {.name = "ReduceMean",
     .infer = InferReduce,
     .gradient = ReduceMeanGradient,
     .cost = CostPerInput},
    {.name = "ReduceSum",
     .infer = InferReduce,
     .gradient = ReduceSumGradient,
     .cost = CostPerInput},
    {.name = "SumTo", .infer = InferSumTo, .gradient = SumToGradient, .cost = CostPerInput},
};

}  // namespace

std::span<const OpDef> ReduceOps() { return kReduceOps; }

}  // namespace pipedream::op_defs
