// What the families of operators share: checks with one wording, broadcasting, small gradient
// helpers. Errors are kInvalidArgument, without the node's name.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "common/graph/op_def.h"

namespace pipedream::op_defs {

using Types = std::vector<TypedShape>;
using Inferred = absl::StatusOr<Types>;

// One table per family; registry.cc joins them.
std::span<const OpDef> ConvOps();
std::span<const OpDef> MatMulOps();
std::span<const OpDef> ArithmeticOps();
std::span<const OpDef> ActivationOps();
std::span<const OpDef> PoolOps();
std::span<const OpDef> NormalizationOps();
std::span<const OpDef> LayerNormOps();
std::span<const OpDef> ShapeOps();
std::span<const OpDef> SelectionOps();
std::span<const OpDef> ReduceOps();
std::span<const OpDef> SoftmaxOps();
std::span<const OpDef> LossOps();

struct InputRule {
  std::string_view name;
  DataType dtype = DataType::kFloat32;
  bool optional = false;
  bool any_type = false;
};

bool Present(const Node& node, size_t input);
// Number, presence and types of the inputs.
absl::Status CheckInputs(const Node& node, const Types& inputs,
                         std::initializer_list<InputRule> rules);
// "input 1 (scale) is [3], expected [4]" unless the shapes are equal.
absl::Status CheckShape(const Types& inputs, size_t input, std::string_view name,
                        const Shape& expected);
absl::Status CheckHas(const Node& node, std::initializer_list<std::string_view> attributes);
// The list `name` of exactly `size` numbers >= `minimum`.
absl::StatusOr<std::vector<int64_t>> RequireInts(const Node& node, std::string_view name,
                                                 size_t size, int64_t minimum);
// The list `name` as a shape, which must be present.
absl::StatusOr<Shape> RequireShape(const Node& node, std::string_view name);

// As NumPy broadcasts.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);
bool BroadcastsTo(const Shape& from, const Shape& to);

// Output 0 has the type of input 0; for operators with one float32 input x.
Inferred InferUnary(const Node& node, const Types& inputs);
// (dy, second) of one shape; output 0 has it.
Inferred InferUnaryGrad(const Node& node, const Types& inputs);

TypedShape Float32(Shape shape);
TypedShape Opaque();  // its size is known to the backend only; shape [0]

// Bytes of all inputs and outputs.
double TransferBytes(const Types& inputs, const Types& outputs);
// Cost functions.
Cost CostPerInput(const Node& node, const Types& inputs, const Types& outputs);
Cost CostMoveOnly(const Node& node, const Types& inputs, const Types& outputs);
Cost CostNothing(const Node& node, const Types& inputs, const Types& outputs);

const Shape& ShapeOf(const GradientContext& context, ValueId id);
// Adds a node with one output.
absl::StatusOr<ValueId> AddOne(GradientContext& context, std::string_view op,
                               std::vector<ValueId> inputs, Attributes attributes = {});
// `gradient` summed to the shape of a value that was broadcast; no node where it has it already.
absl::StatusOr<ValueId> SumTo(GradientContext& context, ValueId gradient, Shape shape);
absl::StatusOr<ValueId> Scale(GradientContext& context, ValueId value, double factor);
// No node where the shape is right already.
absl::StatusOr<ValueId> Reshape(GradientContext& context, ValueId value, Shape shape);

}  // namespace pipedream::op_defs
