// Operators that move elements: Pad, Slice, Reshape, Transpose, Expand.
#include <fmt/format.h>

#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

Inferred InferPad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}}));
  PD_RETURN_IF_ERROR(CheckHas(node, {"value"}));
  Shape y = inputs[0].shape;
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> pads, RequireInts(node, "pads", 2 * y.rank(), 0));
  for (int i = 0; i < y.rank(); ++i) y[i] += pads[i] + pads[i + y.rank()];
  return Types{Float32(std::move(y))};
}

Inferred InferSlice(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{.name = "x", .any_type = true}}));
  Shape y = inputs[0].shape;
  size_t rank = y.rank();
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> starts, RequireInts(node, "starts", rank, 0));
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> ends, RequireInts(node, "ends", rank, 0));
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> steps, RequireInts(node, "steps", rank, 1));
  for (int i = 0; i < y.rank(); ++i) {
    if (starts[i] >= ends[i] || ends[i] > y[i]) {
      return InvalidArgument("takes [{}, {}) of axis {}, which has {} elements", starts[i], ends[i],
                             i, y[i]);
    }
    y[i] = (ends[i] - starts[i] + steps[i] - 1) / steps[i];
  }
  return Types{{inputs[0].dtype, std::move(y)}};
}

Inferred InferReshape(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{.name = "x", .any_type = true}}));
  PD_ASSIGN_OR_RETURN(Shape y, RequireShape(node, "shape"));
  int64_t elements = 0;
  if (!CheckedElements(y.dims(), inputs[0].shape.elements(), &elements) ||
      elements != inputs[0].shape.elements()) {
    return InvalidArgument("cannot reshape {} to {}: the numbers of elements differ",
                           inputs[0].shape.ToString(), y.ToString());
  }
  return Types{{inputs[0].dtype, std::move(y)}};
}

Inferred InferTranspose(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{.name = "x", .any_type = true}}));
  const Shape& x = inputs[0].shape;
  PD_ASSIGN_OR_RETURN(std::vector<int64_t> perm, RequireInts(node, "perm", x.rank(), 0));
  std::vector<bool> seen(perm.size(), false);
  std::vector<int64_t> dims;
  for (int64_t axis : perm) {
    if (axis >= x.rank() || seen[axis]) {
      return InvalidArgument("attribute perm is [{}], not a permutation of {} axes",
                             fmt::join(perm, ", "), x.rank());
    }
    seen[axis] = true;
    dims.push_back(x[static_cast<int>(axis)]);
  }
  return Types{{inputs[0].dtype, Shape(std::move(dims))}};
}

Inferred InferExpand(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{.name = "x", .any_type = true}}));
  PD_ASSIGN_OR_RETURN(Shape y, RequireShape(node, "shape"));
  if (!BroadcastsTo(inputs[0].shape, y)) {
    return InvalidArgument("input 0 (x) is {}, which does not broadcast to {}",
                           inputs[0].shape.ToString(), y.ToString());
  }
  return Types{{inputs[0].dtype, std::move(y)}};
}

Attributes SliceAttributes(std::vector<int64_t> starts, std::vector<int64_t> ends) {
  std::vector<int64_t> steps(starts.size(), 1);
  return Attributes()
      .Set("starts", std::move(starts))
      .Set("ends", std::move(ends))
      .Set("steps", std::move(steps));
}

Attributes PadAttributes(std::vector<int64_t> pads) {
  return Attributes().Set("pads", std::move(pads)).Set("value", 0.0);
}

absl::Status PadGradient(GradientContext& context) {
  const Node& node = context.node();
  Shape x = ShapeOf(context, node.inputs[0]);
  std::vector<int64_t> pads = node.attributes.Ints("pads");
  std::vector<int64_t> starts(pads.begin(), pads.begin() + x.rank());
  std::vector<int64_t> ends;
  for (int i = 0; i < x.rank(); ++i) ends.push_back(starts[i] + x[i]);
  PD_ASSIGN_OR_RETURN(ValueId dx, AddOne(context, "Slice", {context.output_gradient(0)},
                                         SliceAttributes(std::move(starts), std::move(ends))));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

// Puts step-1 zeros after each element of `axis`, of which `length` elements are kept: what lies
// beyond the last taken element was never read.
absl::StatusOr<ValueId> Dilate(GradientContext& context, ValueId value, int axis, int64_t step,
                               int64_t length) {
  Shape shape = ShapeOf(context, value);
  std::vector<int64_t> dims = shape.dims();
  dims.insert(dims.begin() + axis + 1, 1);
  PD_ASSIGN_OR_RETURN(value, Reshape(context, value, Shape(dims)));
  std::vector<int64_t> pads(2 * dims.size(), 0);
  pads[dims.size() + axis + 1] = step - 1;
  PD_ASSIGN_OR_RETURN(value, AddOne(context, "Pad", {value}, PadAttributes(std::move(pads))));
  shape[axis] *= step;
  PD_ASSIGN_OR_RETURN(value, Reshape(context, value, shape));
  if (shape[axis] <= length) return value;
  shape[axis] = length;
  return AddOne(context, "Slice", {value},
                SliceAttributes(std::vector<int64_t>(shape.rank(), 0), shape.dims()));
}

absl::Status SliceGradient(GradientContext& context) {
  const Node& node = context.node();
  Shape x = ShapeOf(context, node.inputs[0]);
  std::vector<int64_t> starts = node.attributes.Ints("starts");
  std::vector<int64_t> steps = node.attributes.Ints("steps");
  ValueId gradient = context.output_gradient(0);
  for (int i = 0; i < x.rank(); ++i) {
    if (steps[i] == 1) continue;
    PD_ASSIGN_OR_RETURN(gradient, Dilate(context, gradient, i, steps[i], x[i] - starts[i]));
  }
  Shape taken = ShapeOf(context, gradient);
  std::vector<int64_t> pads = starts;
  for (int i = 0; i < x.rank(); ++i) pads.push_back(x[i] - starts[i] - taken[i]);
  if (taken != x) {
    PD_ASSIGN_OR_RETURN(gradient,
                        AddOne(context, "Pad", {gradient}, PadAttributes(std::move(pads))));
  }
  context.SetInputGradient(0, gradient);
  return absl::OkStatus();
}

absl::Status ReshapeGradient(GradientContext& context) {
  Shape x = ShapeOf(context, context.node().inputs[0]);
  PD_ASSIGN_OR_RETURN(ValueId dx, Reshape(context, context.output_gradient(0), std::move(x)));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

absl::Status TransposeGradient(GradientContext& context) {
  std::vector<int64_t> perm = context.node().attributes.Ints("perm");
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  PD_ASSIGN_OR_RETURN(ValueId dx, AddOne(context, "Transpose", {context.output_gradient(0)},
                                         Attributes().Set("perm", std::move(inverse))));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

absl::Status ExpandGradient(GradientContext& context) {
  Shape x = ShapeOf(context, context.node().inputs[0]);
  PD_ASSIGN_OR_RETURN(ValueId dx, SumTo(context, context.output_gradient(0), std::move(x)));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

constexpr OpDef kShapeOps[] = {
    {.name = "Pad", .infer = InferPad, .gradient = PadGradient, .cost = CostMoveOnly},
    {.name = "Slice", .infer = InferSlice, .gradient = SliceGradient, .cost = CostMoveOnly},
    {.name = "Reshape", .infer = InferReshape, .gradient = ReshapeGradient, .cost = CostNothing},
    {.name = "Transpose",
     .infer = InferTranspose,
     .gradient = TransposeGradient,
     .cost = CostMoveOnly},
    {.name = "Expand", .infer = InferExpand, .gradient = ExpandGradient, .cost = CostMoveOnly},
};

}  // namespace

std::span<const OpDef> ShapeOps() { return kShapeOps; }

}  // namespace pipedream::op_defs
