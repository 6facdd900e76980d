// Operators that join, part and pick: Concat, Split, Gather, Where.
#include <fmt/format.h>

#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

// Attribute axis, which must be one of `x`.
absl::StatusOr<int> RequireAxis(const Node& node, const Shape& x) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"axis"}));
  int64_t axis = node.attributes.Int("axis");
  if (axis >= 0 && axis < x.rank()) return static_cast<int>(axis);
  return InvalidArgument("attribute axis is {}, expected an axis of {}", axis, x.ToString());
}

Inferred InferConcat(const Node& node, const Types& inputs) {
  if (!Present(node, 0)) return InvalidArgument("input 0 is missing");
  PD_ASSIGN_OR_RETURN(int axis, RequireAxis(node, inputs[0].shape));
  TypedShape y = inputs[0];
  y.shape[axis] = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!Present(node, i)) return InvalidArgument("input {} is missing", i);
    if (inputs[i].dtype != y.dtype) {
      return InvalidArgument("input {} is {}, but input 0 is {}", i, ToString(inputs[i].dtype),
                             ToString(y.dtype));
    }
    Shape rest = inputs[i].shape;
    if (rest.rank() == y.shape.rank()) rest[axis] = y.shape[axis];
    if (rest != y.shape) {
      return InvalidArgument("input {} is {}, which differs from input 0, {}, beyond axis {}", i,
                             inputs[i].shape.ToString(), inputs[0].shape.ToString(), axis);
    }
    if (inputs[i].shape[axis] == 0) {
      return InvalidArgument("input {} is {}, which is empty", i, inputs[i].shape.ToString());
    }
    y.shape[axis] += inputs[i].shape[axis];
  }
  return Types{y};
}

Inferred InferSplit(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{.name = "x", .any_type = true}}));
  const Shape& x = inputs[0].shape;
  PD_ASSIGN_OR_RETURN(int axis, RequireAxis(node, x));
  PD_RETURN_IF_ERROR(CheckHas(node, {"split"}));
  std::vector<int64_t> sizes = node.attributes.Ints("split");
  int64_t sum = 0;
  Types outputs;
  for (int64_t size : sizes) {
    // The first two keep the sum small.
    if (size < 1 || size > x[axis] || (sum += size) > x[axis]) break;
    outputs.push_back(inputs[0]);
    outputs.back().shape[axis] = size;
  }
  if (outputs.size() == sizes.size() && sum == x[axis] && !sizes.empty()) return outputs;
  return InvalidArgument(
      "attribute split is [{}], expected positive sizes that add up to the {} of axis {}",
      fmt::join(sizes, ", "), x[axis], axis);
}

Inferred InferGather(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(
      CheckInputs(node, inputs, {{.name = "x", .any_type = true}, {"indices", DataType::kInt64}}));
  const Shape &x = inputs[0].shape, &indices = inputs[1].shape;
  PD_ASSIGN_OR_RETURN(int axis, RequireAxis(node, x));
  if (x[axis] == 0) {
    return InvalidArgument("input 0 (x) is {}: axis {} has nothing to pick from", x.ToString(),
                           axis);
  }
  std::vector<int64_t> dims(x.dims().begin(), x.dims().begin() + axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  return Types{{inputs[0].dtype, Shape(std::move(dims))}};
}

Inferred InferGatherGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"dy"}, {"indices", DataType::kInt64}}));
  PD_ASSIGN_OR_RETURN(Shape x, RequireShape(node, "x_shape"));
  PD_ASSIGN_OR_RETURN(Types y, InferGather(node, {Float32(x), inputs[1]}));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 0, "dy", y[0].shape));
  return Types{Float32(std::move(x))};
}

Inferred InferWhere(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"condition", DataType::kBool}, {"a"}, {"b"}}));
  PD_ASSIGN_OR_RETURN(Shape y, BroadcastShapes(inputs[1].shape, inputs[2].shape));
  PD_ASSIGN_OR_RETURN(y, BroadcastShapes(inputs[0].shape, y));
  return Types{Float32(std::move(y))};
}

Inferred InferWhereGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"condition", DataType::kBool}, {"dy"}}));
  PD_RETURN_IF_ERROR(CheckHas(node, {"keep"}));
  if (!BroadcastsTo(inputs[0].shape, inputs[1].shape)) {
    return InvalidArgument("input 0 (condition) is {}, which does not broadcast to {}",
                           inputs[0].shape.ToString(), inputs[1].shape.ToString());
  }
  return Types{inputs[1]};
}

absl::Status ConcatGradient(GradientContext& context) {
  const Node& node = context.node();
  int axis = static_cast<int>(node.attributes.Int("axis"));
  Shape y = ShapeOf(context, node.outputs[0]);
  std::vector<int64_t> starts(y.rank(), 0), ends = y.dims();
  for (int i = static_cast<int>(node.inputs.size()) - 1; i >= 0; --i) {
    starts[axis] = ends[axis] - ShapeOf(context, node.inputs[i])[axis];
    if (context.wants(i)) {
      Attributes attributes;
      attributes.Set("starts", starts)
          .Set("ends", ends)
          .Set("steps", std::vector<int64_t>(y.rank(), 1));
      PD_ASSIGN_OR_RETURN(ValueId dx, AddOne(context, "Slice", {context.output_gradient(0)},
                                             std::move(attributes)));
      context.SetInputGradient(i, dx);
    }
    ends[axis] = starts[axis];
  }
  return absl::OkStatus();
}

// The gradient of one output, with zeros where the others are.
absl::StatusOr<ValueId> PadPart(GradientContext& context, ValueId part, int axis, int64_t before,
                                int64_t after) {
  int rank = ShapeOf(context, part).rank();
  std::vector<int64_t> pads(2 * static_cast<size_t>(rank), 0);
  pads[axis] = before;
  pads[axis + rank] = after;
  if (before == 0 && after == 0) return part;
  return AddOne(context, "Pad", {part}, Attributes().Set("pads", pads).Set("value", 0.0));
}

absl::Status SplitGradient(GradientContext& context) {
  const Node& node = context.node();
  int axis = static_cast<int>(node.attributes.Int("axis"));
  // Neighbouring parts that have a gradient are joined; what the rest would add is zero.
  ValueId sum = kNoValue;
  int64_t total = ShapeOf(context, node.inputs[0])[axis];
  int64_t end = 0;
  for (size_t o = 0; o < node.outputs.size();) {
    std::vector<ValueId> run;
    int64_t begin = end;
    for (; o < node.outputs.size(); ++o) {
      ValueId dy = context.output_gradient(static_cast<int>(o));
      if (dy == kNoValue) break;
      run.push_back(dy);
      end += ShapeOf(context, dy)[axis];
    }
    if (!run.empty()) {
      ValueId part = run[0];
      if (run.size() > 1) {
        PD_ASSIGN_OR_RETURN(
            part, AddOne(context, "Concat", run, Attributes().Set("axis", int64_t{axis})));
      }
      PD_ASSIGN_OR_RETURN(part, PadPart(context, part, axis, begin, total - end));
      if (sum != kNoValue) {
        PD_ASSIGN_OR_RETURN(part, AddOne(context, "Add", {sum, part}));
      }
      sum = part;
    }
    if (o < node.outputs.size()) end += node.attributes.Ints("split")[o++];
  }
  context.SetInputGradient(0, sum);
  return absl::OkStatus();
}

absl::Status GatherGradient(GradientContext& context) {
  const Node& node = context.node();
  Attributes attributes = node.attributes;
  attributes.Set("x_shape", ShapeOf(context, node.inputs[0]).dims());
  PD_ASSIGN_OR_RETURN(ValueId dx,
                      AddOne(context, "GatherGrad", {context.output_gradient(0), node.inputs[1]},
                             std::move(attributes)));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

absl::Status WhereGradient(GradientContext& context) {
  const Node& node = context.node();
  for (int index : {2, 1}) {
    if (!context.wants(index)) continue;
    PD_ASSIGN_OR_RETURN(ValueId kept,
                        AddOne(context, "WhereGrad", {node.inputs[0], context.output_gradient(0)},
                               Attributes().Set("keep", int64_t{index == 1})));
    PD_ASSIGN_OR_RETURN(kept, SumTo(context, kept, ShapeOf(context, node.inputs[index])));
    context.SetInputGradient(index, kept);
  }
  return absl::OkStatus();
}

// Of x only the picked rows are read.
Cost GatherCost(const Node&, const Types& inputs, const Types& outputs) {
  return {0, TransferBytes({inputs[1]}, {outputs[0], outputs[0]})};
}

constexpr OpDef kSelectionOps[] = {
    {.name = "Concat", .infer = InferConcat, .gradient = ConcatGradient, .cost = CostMoveOnly},
    {.name = "Split", .infer = InferSplit, .gradient = SplitGradient, .cost = CostMoveOnly},
    {.name = "Gather", .infer = InferGather, .gradient = GatherGradient, .cost = GatherCost},
    {.name = "GatherGrad", .infer = InferGatherGrad, .cost = CostPerInput},
    {.name = "Where", .infer = InferWhere, .gradient = WhereGradient, .cost = CostMoveOnly},
    {.name = "WhereGrad", .infer = InferWhereGrad, .cost = CostMoveOnly},
};

}  // namespace

std::span<const OpDef> SelectionOps() { return kSelectionOps; }

}  // namespace pipedream::op_defs
