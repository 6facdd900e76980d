#include "common/graph/op_defs/op_util.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/base/status.h"

namespace pipedream::op_defs {

bool Present(const Node& node, size_t input) {
  return input < node.inputs.size() && node.inputs[input] != kNoValue;
}

absl::Status CheckInputs(const Node& node, const Types& inputs,
                         std::initializer_list<InputRule> rules) {
  if (inputs.size() > rules.size()) {
    return InvalidArgument("has {} inputs, takes at most {}", inputs.size(), rules.size());
  }
  size_t i = 0;
  for (const InputRule& rule : rules) {
    if (!Present(node, i)) {
      if (!rule.optional) return InvalidArgument("input {} ({}) is missing", i, rule.name);
    } else if (!rule.any_type && inputs[i].dtype != rule.dtype) {
      return InvalidArgument("input {} ({}) is {}, expected {}", i, rule.name,
                             ToString(inputs[i].dtype), ToString(rule.dtype));
    }
    ++i;
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const Types& inputs, size_t input, std::string_view name,
                        const Shape& expected) {
  if (inputs[input].shape == expected) return absl::OkStatus();
  return InvalidArgument("input {} ({}) is {}, expected {}", input, name,
                         inputs[input].shape.ToString(), expected.ToString());
}

absl::Status CheckHas(const Node& node, std::initializer_list<std::string_view> attributes) {
  for (std::string_view name : attributes) {
    if (!node.attributes.Has(name)) return InvalidArgument("attribute {} is missing", name);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> RequireInts(const Node& node, std::string_view name,
                                                 size_t size, int64_t minimum) {
  PD_RETURN_IF_ERROR(CheckHas(node, {name}));
  std::vector<int64_t> list = node.attributes.Ints(name);
  if (list.size() != size ||
      std::any_of(list.begin(), list.end(), [&](int64_t v) { return v < minimum; })) {
    return InvalidArgument("attribute {} is [{}], expected {} numbers >= {}", name,
                           fmt::join(list, ", "), size, minimum);
  }
  return list;
}

absl::StatusOr<Shape> RequireShape(const Node& node, std::string_view name) {
  PD_RETURN_IF_ERROR(CheckHas(node, {name}));
  Shape shape(node.attributes.Ints(name));
  for (int64_t d : shape.dims()) {
    if (d < 0) {
      return InvalidArgument("attribute {} is {}, dimensions must be >= 0", name, shape.ToString());
    }
  }
  return shape;
}

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(rank);
  for (int i = 0; i < rank; ++i) {
    int ia = i - (rank - a.rank());
    int ib = i - (rank - b.rank());
    int64_t da = ia < 0 ? 1 : a[ia];
    int64_t db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1) {
      return InvalidArgument("shapes {} and {} do not broadcast", a.ToString(), b.ToString());
    }
    dims[i] = da == 1 ? db : da;
  }
  return Shape(std::move(dims));
}

bool BroadcastsTo(const Shape& from, const Shape& to) {
  absl::StatusOr<Shape> joined = BroadcastShapes(from, to);
  return joined.ok() && *joined == to;
}

Inferred InferUnary(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}}));
  return Types{inputs[0]};
}

Inferred InferUnaryGrad(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"dy"}, {"value"}}));
  PD_RETURN_IF_ERROR(CheckShape(inputs, 1, "value", inputs[0].shape));
  return Types{inputs[0]};
}

TypedShape Float32(Shape shape) { return {DataType::kFloat32, std::move(shape)}; }
TypedShape Opaque() { return {DataType::kOpaque, Shape({0})}; }

double TransferBytes(const Types& inputs, const Types& outputs) {
  double bytes = 0;
  for (const Types* types : {&inputs, &outputs}) {
    for (const TypedShape& t : *types) {
      bytes += static_cast<double>(t.shape.elements()) * static_cast<double>(SizeOf(t.dtype));
    }
  }
  return bytes;
}

Cost CostPerInput(const Node&, const Types& inputs, const Types& outputs) {
  return {static_cast<double>(inputs[0].shape.elements()), TransferBytes(inputs, outputs)};
}

Cost CostMoveOnly(const Node&, const Types& inputs, const Types& outputs) {
  return {0, TransferBytes(inputs, outputs)};
}

Cost CostNothing(const Node&, const Types&, const Types&) { return {}; }

const Shape& ShapeOf(const GradientContext& context, ValueId id) {
  return context.graph().value(id).shape;
}

absl::StatusOr<ValueId> AddOne(GradientContext& context, std::string_view op,
                               std::vector<ValueId> inputs, Attributes attributes) {
  PD_ASSIGN_OR_RETURN(std::vector<ValueId> outputs,
                      context.Add(op, std::move(inputs), std::move(attributes)));
  return outputs[0];
}

absl::StatusOr<ValueId> SumTo(GradientContext& context, ValueId gradient, Shape shape) {
  if (ShapeOf(context, gradient) == shape) return gradient;
  return AddOne(context, "SumTo", {gradient}, Attributes().Set("shape", shape.dims()));
}

absl::StatusOr<ValueId> Scale(GradientContext& context, ValueId value, double factor) {
  if (factor == 1) return value;
  return AddOne(context, "Scale", {value}, Attributes().Set("factor", factor));
}

absl::StatusOr<ValueId> Reshape(GradientContext& context, ValueId value, Shape shape) {
  if (ShapeOf(context, value) == shape) return value;
  return AddOne(context, "Reshape", {value}, Attributes().Set("shape", shape.dims()));
}

}  // namespace pipedream::op_defs
