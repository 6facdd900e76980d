// Shape inference of every operator: what fits and what does not, as tables.
#include <limits>
#include <set>

#include "common/graph/op_def.h"
#include "tests/common/graph/op_defs/op_attributes.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

constexpr DataType kFloat = DataType::kFloat32;
constexpr DataType kLong = DataType::kInt64;

struct InferenceCase {
  std::string op;
  std::vector<TypedShape> inputs;
  Attributes attributes = {};
  std::vector<TypedShape> outputs = {};  // where it fits
  std::string error = {};                // part of the message where it does not
};

TypedShape F(Ints dims) { return {kFloat, Shape(std::move(dims))}; }
TypedShape L(Ints dims) { return {kLong, Shape(std::move(dims))}; }
TypedShape B(Ints dims) { return {DataType::kBool, Shape(std::move(dims))}; }
const TypedShape kOpaque = {DataType::kOpaque, Shape({0})};

absl::StatusOr<std::vector<TypedShape>> Infer(const InferenceCase& c) {
  Node node;
  node.op = c.op;
  node.attributes = c.attributes;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    node.inputs.push_back(ValueId(static_cast<int32_t>(i)));
  }
  const OpDef* def = FindOpDef(c.op);
  if (def == nullptr) return InvalidArgument("no operator '{}'", c.op);
  return def->infer(node, c.inputs);
}

Attributes Lrn() {
  return Attributes().Set("size", int64_t{5}).Set("alpha", 1e-4).Set("beta", 0.75).Set("bias", 1.0);
}
Attributes Dropout(double ratio) { return Float("ratio", ratio).Set("key", int64_t{3}); }

std::vector<InferenceCase> Fitting() {
  Attributes conv = ConvAttributes({3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1});
  Attributes grouped = ConvAttributes({3}, {1}, {0, 0}, {2}, 2);
  Attributes max_pool = WindowAttributes({3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1});
  Attributes average = WindowAttributes({2, 2}, {2, 2}, {0, 0, 0, 0});
  Attributes clip = Float("min", -kInfinity).Set("max", 6.0);
  Attributes hard = Float("alpha", 0.2).Set("beta", 0.5);
  Attributes update = Float("momentum", 0.9).Set("count", int64_t{32});
  Attributes pad = List("pads", {1, 0, 2, 3}).Set("value", 0.0);
  return {
      {"Conv", {F({8, 3, 32, 32}), F({16, 3, 3, 3})}, conv, {F({8, 16, 16, 16})}},
      {"Conv", {F({8, 3, 31, 30}), F({16, 3, 3, 3}), F({16})}, conv, {F({8, 16, 16, 15})}},
      {"Conv", {F({1, 4, 9}), F({6, 2, 3})}, grouped, {F({1, 6, 5})}},
      {"Conv",
       {F({1, 2, 4, 4, 4}), F({3, 2, 2, 2, 2})},
       ConvAttributes({2, 2, 2}, {1, 1, 2}, {0, 0, 0, 1, 0, 0}, {1, 1, 1}),
       {F({1, 3, 4, 3, 2})}},
      {"Gemm", {F({4, 3}), F({3, 2})}, GemmAttributes(), {F({4, 2})}},
      {"Gemm", {F({3, 4}), F({2, 3}), F({2})}, GemmAttributes(true, true), {F({4, 2})}},
      {"MatMul", {F({5, 4, 3}), F({3, 2})}, {}, {F({5, 4, 2})}},
      {"MatMul",
       {F({7, 1, 4, 3}), F({5, 2, 3})},
       Attributes().Set("trans_b", int64_t{1}),
       {F({7, 5, 4, 2})}},
      {"Add", {F({4, 1, 3}), F({5, 1})}, {}, {F({4, 5, 3})}},
      {"Sub", {F({4}), F({})}, {}, {F({4})}},
      {"Mul", {F({2, 3}), F({2, 3})}, {}, {F({2, 3})}},
      {"Div", {F({1}), F({2, 3})}, {}, {F({2, 3})}},
      {"Scale", {F({2, 3})}, Float("factor", 2), {F({2, 3})}},
      {"Relu", {F({2, 3})}, {}, {F({2, 3})}},
      {"Sigmoid", {F({2})}, {}, {F({2})}},
      {"Tanh", {F({})}, {}, {F({})}},
      {"Erf", {F({2})}, {}, {F({2})}},
      {"Gelu", {F({2})}, {}, {F({2})}},
      {"GeluTanh", {F({2})}, {}, {F({2})}},
      {"Sqrt", {F({2})}, {}, {F({2})}},
      {"Pow", {F({2})}, Float("exponent", 3), {F({2})}},
      {"HardSwish", {F({2})}, {}, {F({2})}},
      {"HardSigmoid", {F({2})}, hard, {F({2})}},
      {"Clip", {F({2})}, clip, {F({2})}},
      {"MaxPool", {F({8, 3, 32, 31})}, max_pool, {F({8, 3, 16, 16}), kOpaque}},
      {"AveragePool", {F({8, 3, 32, 31})}, average, {F({8, 3, 16, 15})}},
      {"BatchNormalization",
       {F({8, 3, 5}), F({3}), F({3})},
       Float("epsilon", 1e-5),
       {F({8, 3, 5}), F({3}), F({3})}},
      {"UpdateRunningStatistics", {F({3}), F({3}), F({3}), F({3})}, update, {}},
      {"BatchNormalizationInference",
       {F({8, 3}), F({3}), F({3}), F({3}), F({3})},
       Float("epsilon", 1e-5),
       {F({8, 3})}},
      {"LayerNormalization",
       {F({8, 3, 5}), F({5}), F({5})},
       LayerNorm(2),
       {F({8, 3, 5}), F({8, 3}), F({8, 3})}},
      {"LayerNormalization",
       {F({8, 3, 5}), F({3, 5})},
       LayerNorm(1),
       {F({8, 3, 5}), F({8}), F({8})}},
      {"LRN", {F({2, 3, 4, 4})}, Lrn(), {F({2, 3, 4, 4}), kOpaque}},
      {"Pad", {F({2, 3})}, pad, {F({5, 6})}},
      {"Slice", {F({4, 9})}, Slice({1, 2}, {3, 9}, {1, 3}), {F({2, 3})}},
      {"Slice", {L({4})}, Slice({0}, {1}, {1}), {L({1})}},
      {"Reshape", {F({4, 9})}, List("shape", {2, 18}), {F({2, 18})}},
      {"Reshape", {F({1, 1})}, List("shape", {}), {F({})}},
      {"Transpose", {F({4, 9, 2})}, List("perm", {2, 0, 1}), {F({2, 4, 9})}},
      {"Expand", {F({3, 1})}, List("shape", {2, 3, 4}), {F({2, 3, 4})}},
      {"Concat", {F({2, 3}), F({2, 1}), F({2, 5})}, Axis(1), {F({2, 9})}},
      {"Concat", {L({2}), L({3})}, Axis(0), {L({5})}},
      {"Split",
       {F({2, 9})},
       Axis(1).Set("split", Ints{3, 1, 5}),
       {F({2, 3}), F({2, 1}), F({2, 5})}},
      {"Gather", {F({48, 24}), L({8, 12})}, Axis(0), {F({8, 12, 24})}},
      {"Gather", {F({2, 3, 4}), L({})}, Axis(1), {F({2, 4})}},
      {"Gather", {L({5}), L({2})}, Axis(0), {L({2})}},
      {"Where", {B({3, 4}), F({}), F({2, 3, 4})}, {}, {F({2, 3, 4})}},
      {"Where", {B({2, 1, 1}), F({3, 1}), F({4})}, {}, {F({2, 3, 4})}},
      {"ReduceMean", {F({2, 3, 4})}, List("axes", {0, 2}), {F({3})}},
      {"ReduceSum", {F({2, 3})}, List("axes", {1}).Set("keepdims", int64_t{1}), {F({2, 1})}},
      {"SumTo", {F({2, 3, 4})}, List("shape", {3, 1}), {F({3, 1})}},
      {"Softmax", {F({2, 3})}, Attributes().Set("axis", int64_t{1}), {F({2, 3})}},
      {"Dropout", {F({2, 3})}, Dropout(0.5), {F({2, 3})}},
      {"CrossEntropy", {F({8, 10}), L({8})}, {}, {F({}), F({8, 10}), L({})}},
      {"CrossEntropy", {F({8, 5, 10}), L({8, 5})}, {}, {F({}), F({8, 5, 10}), L({})}},
      {"Mse", {F({8, 2}), F({8, 2})}, {}, {F({})}},
      {"ConvGradInput",
       {F({8, 16, 16, 16}), F({16, 3, 3, 3})},
       Attributes(conv).Set("x_shape", Ints{8, 3, 32, 32}),
       {F({8, 3, 32, 32})}},
      {"ConvGradWeight",
       {F({8, 3, 32, 32}), F({8, 16, 16, 16})},
       Attributes(conv).Set("w_shape", Ints{16, 3, 3, 3}),
       {F({16, 3, 3, 3}), F({16})}},
      {"ReluGrad", {F({2}), F({2})}, {}, {F({2})}},
      {"SigmoidGrad", {F({2}), F({2})}, {}, {F({2})}},
      {"TanhGrad", {F({2}), F({2})}, {}, {F({2})}},
      {"ErfGrad", {F({2}), F({2})}, {}, {F({2})}},
      {"GeluGrad", {F({2}), F({2})}, {}, {F({2})}},
      {"GeluTanhGrad", {F({2}), F({2})}, {}, {F({2})}},
      {"HardSwishGrad", {F({2}), F({2})}, {}, {F({2})}},
      {"HardSigmoidGrad", {F({2}), F({2})}, hard, {F({2})}},
      {"ClipGrad", {F({2}), F({2})}, clip, {F({2})}},
      {"MaxPoolGrad",
       {F({8, 3, 16, 16}), kOpaque},
       Attributes(max_pool).Set("x_shape", Ints{8, 3, 32, 31}),
       {F({8, 3, 32, 31})}},
      {"AveragePoolGrad",
       {F({8, 3, 16, 15})},
       Attributes(average).Set("x_shape", Ints{8, 3, 32, 31}),
       {F({8, 3, 32, 31})}},
      {"BatchNormalizationGrad",
       {F({8, 3}), F({8, 3}), F({3}), F({3}), F({3})},
       Float("epsilon", 1e-5),
       {F({8, 3}), F({3}), F({3})}},
      {"LayerNormalizationGrad",
       {F({8, 3, 5}), F({8, 3, 5}), F({5}), F({8, 3}), F({8, 3})},
       LayerNorm(2),
       {F({8, 3, 5}), F({5}), F({5})}},
      {"GatherGrad",
       {F({8, 12, 24}), L({8, 12})},
       Axis(0).Set("x_shape", Ints{48, 24}),
       {F({48, 24})}},
      {"WhereGrad",
       {B({3, 1}), F({2, 3, 4})},
       Attributes().Set("keep", int64_t{1}),
       {F({2, 3, 4})}},
      {"LRNGrad", {F({2, 3, 4}), F({2, 3, 4}), kOpaque}, Lrn(), {F({2, 3, 4})}},
      {"SoftmaxGrad", {F({2, 3}), F({2, 3})}, Attributes().Set("axis", int64_t{0}), {F({2, 3})}},
      {"DropoutGrad", {F({2, 3})}, Dropout(0.5), {F({2, 3})}},
      {"CrossEntropyGrad", {F({8, 10}), L({8}), F({})}, {}, {F({8, 10})}},
      {"MseGrad", {F({8, 2}), F({8, 2}), F({})}, {}, {F({8, 2})}},
  };
}

TEST(InferenceTest, GivesShapesAndTypes) {
  for (const InferenceCase& c : Fitting()) {
    SCOPED_TRACE(c.op + " " + c.attributes.ToString());
    auto outputs = Infer(c);
    EXPECT_OK(outputs);
    if (!outputs.ok()) continue;
    ASSERT_EQ(outputs->size(), c.outputs.size());
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      EXPECT_EQ((*outputs)[i].shape, c.outputs[i].shape);
      EXPECT_EQ((*outputs)[i].dtype, c.outputs[i].dtype);
    }
  }
}

TEST(InferenceTest, EveryOperatorIsInTheTable) {
  std::set<std::string> seen;
  for (const InferenceCase& c : Fitting()) seen.insert(c.op);
  for (const OpDef* def : AllOpDefs()) {
    EXPECT_EQ(seen.count(std::string(def->name)), 1u) << def->name;
  }
  EXPECT_EQ(seen.size(), AllOpDefs().size());
}

TEST(InferenceTest, EveryOperatorRefusesMissingAndSurplusInputs) {
  std::set<std::string> with_optional = {"Conv", "Gemm"};
  for (InferenceCase c : Fitting()) {
    SCOPED_TRACE(c.op);
    InferenceCase missing = c;
    missing.inputs.clear();
    EXPECT_THAT(Infer(missing), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("missing")));
    if (c.op == "Concat") continue;  // takes any number
    for (int i = 0; i < 6; ++i) c.inputs.push_back(F({1}));
    EXPECT_THAT(Infer(c), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("takes at most")));
  }
}

std::vector<InferenceCase> Misfits() {
  Attributes conv = Conv3x3();
  Attributes pool = WindowAttributes({2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1});
  Attributes epsilon = Float("epsilon", 1e-5);
  return {
      {"Relu", {L({2})}, {}, {}, "input 0 (x) is int64, expected float32"},
      {"Conv", {F({8, 3}), F({16, 3})}, conv, {}, "input 0 (x) is [8, 3], expected [N, C, D1..Dk]"},
      {"Conv", {F({8, 3, 9, 9}), F({16, 4, 3, 3})}, conv, {}, "w is [16, 4, 3, 3], expected [M, 3"},
      {"Conv", {F({8, 3, 9, 9}), F({16, 3, 5, 5})}, conv, {}, "attribute kernel is [3, 3]"},
      {"Conv",
       {F({8, 3, 9, 9}), F({16, 3, 3, 3}), F({3})},
       conv,
       {},
       "input 2 (b) is [3], expected [16]"},
      {"Conv",
       {F({8, 3, 9, 9}), F({16, 3, 3, 3})},
       Attributes(conv).Set("group", int64_t{2}),
       {},
       "group is 2, which does not divide the 3 channels of x"},
      {"Conv",
       {F({8, 4, 9, 9}), F({15, 2, 3, 3})},
       Attributes(conv).Set("group", int64_t{2}),
       {},
       "group is 2, which does not divide the 15 channels of y"},
      {"Conv",
       {F({8, 3, 9, 9}), F({16, 3, 3, 3})},
       Attributes(conv).Set("strides", Ints{1, 0}),
       {},
       "attribute strides is [1, 0], expected 2 numbers >= 1"},
      {"Conv",
       {F({8, 3, 9, 9}), F({16, 3, 3, 3})},
       Attributes(conv).Set("pads", Ints{1, 1}),
       {},
       "attribute pads is [1, 1], expected 4 numbers >= 0"},
      {"Conv",
       {F({8, 3, 1, 9}), F({16, 3, 3, 3})},
       Attributes(conv).Set("pads", Ints{0, 0, 1, 0}),
       {},
       "the kernel spans 3 on spatial axis 0, more than the padded input's 2"},
      {"Conv", {F({8, 3, 9, 9}), F({16, 3, 3, 3})}, {}, {}, "attribute kernel is missing"},
      {"Gemm", {F({4, 3}), F({4, 2})}, GemmAttributes(), {}, "inner sizes are 3 and 4"},
      {"Gemm",
       {F({4, 3}), F({3, 2}), F({4})},
       GemmAttributes(),
       {},
       "input 2 (c) is [4], which does not broadcast to [4, 2]"},
      {"Gemm", {F({4, 3, 1}), F({3, 2})}, GemmAttributes(), {}, "expected two axes each"},
      {"MatMul", {F({3}), F({3, 2})}, {}, {}, "expected at least two axes"},
      {"MatMul", {F({2, 4, 3}), F({3, 3, 2})}, {}, {}, "shapes [2] and [3] do not broadcast"},
      {"Mul", {F({2, 3}), F({3, 2})}, {}, {}, "shapes [2, 3] and [3, 2] do not broadcast"},
      {"Scale", {F({2})}, {}, {}, "attribute factor is missing"},
      {"Clip", {F({2})}, Float("min", 2).Set("max", 1.0), {}, "min is 2, above max, 1"},
      {"MaxPool",
       {F({8, 3, 9, 9})},
       Attributes(pool).Set("pads", Ints{2, 0, 0, 0}),
       {},
       "attribute pads leaves window 0 of spatial axis 0 wholly in the padding"},
      {"AveragePool",
       {F({8, 3, 9, 8})},
       Attributes(pool).Set("pads", Ints{0, 0, 0, 2}),
       {},
       "window 4 of spatial axis 1 wholly in the padding"},
      {"BatchNormalization",
       {F({8, 3}), F({4}), F({3})},
       epsilon,
       {},
       "input 1 (scale) is [4], expected [3]"},
      {"BatchNormalization", {F({8}), F({4}), F({3})}, epsilon, {}, "at least the axes [N, C]"},
      {"BatchNormalizationInference",
       {F({8, 3}), F({3}), F({3}), F({3}), F({1})},
       epsilon,
       {},
       "input 4 (variance) is [1], expected [3]"},
      {"UpdateRunningStatistics",
       {F({3}), F({3}), F({2}), F({3})},
       Float("momentum", 0.9).Set("count", int64_t{8}),
       {},
       "input 2 (running_mean) is [2]"},
      {"UpdateRunningStatistics",
       {F({3}), F({3}), F({3}), F({3})},
       Float("momentum", 0.9).Set("count", int64_t{0}),
       {},
       "attribute count is 0"},
      {"LRN", {F({2, 3})}, Lrn().Set("size", int64_t{0}), {}, "attribute size is 0"},
      {"LayerNormalization",
       {F({8, 3}), F({1}), F({3})},
       LayerNorm(1),
       {},
       "input 1 (scale) is [1], expected [3]"},
      {"LayerNormalization",
       {F({8, 3}), F({3}), F({8, 3})},
       LayerNorm(1),
       {},
       "input 2 (bias) is [8, 3], expected [3]"},
      {"LayerNormalization", {F({8, 3}), F({3})}, LayerNorm(2), {}, "axis is 2, expected an axis"},
      {"LayerNormalization", {F({8, 0}), F({0})}, LayerNorm(1), {}, "nothing lies along the axes"},
      {"LayerNormalization", {F({8, 3}), F({3})}, Axis(1), {}, "attribute epsilon is missing"},
      {"Pow", {F({2})}, {}, {}, "attribute exponent is missing"},
      {"Concat", {F({2, 3}), F({3, 3})}, Axis(1), {}, "input 1 is [3, 3], which differs from"},
      {"Concat", {F({2, 3}), F({3})}, Axis(1), {}, "input 1 is [3], which differs from"},
      {"Concat", {F({2, 3}), L({2, 3})}, Axis(1), {}, "input 1 is int64, but input 0 is float32"},
      {"Concat", {F({2, 3}), F({2, 0})}, Axis(1), {}, "input 1 is [2, 0], which is empty"},
      {"Concat", {F({2, 3}), F({2, 3})}, Axis(2), {}, "axis is 2, expected an axis of [2, 3]"},
      {"Split", {F({5})}, Axis(0).Set("split", Ints{2, 2}), {}, "add up to the 5 of axis 0"},
      {"Split", {F({5})}, Axis(0).Set("split", Ints{5, 0}), {}, "split is [5, 0]"},
      {"Split", {F({5})}, Axis(0).Set("split", Ints{6, -1}), {}, "split is [6, -1]"},
      {"Split", {F({5})}, Axis(0).Set("split", Ints{}), {}, "split is []"},
      {"Gather", {F({5, 2}), F({3})}, Axis(0), {}, "input 1 (indices) is float32, expected int64"},
      {"Gather", {F({5, 2}), L({3})}, Axis(-1), {}, "axis is -1, expected an axis of [5, 2]"},
      {"Gather", {F({0, 2}), L({3})}, Axis(0), {}, "axis 0 has nothing to pick from"},
      {"Where", {F({2}), F({2}), F({2})}, {}, {}, "input 0 (condition) is float32, expected bool"},
      {"Where", {B({2}), L({2}), L({2})}, {}, {}, "input 1 (a) is int64, expected float32"},
      {"Where", {B({3}), F({2}), F({2})}, {}, {}, "shapes [3] and [2] do not broadcast"},
      {"GatherGrad",
       {F({3, 3}), L({3})},
       Axis(0).Set("x_shape", Ints{5, 2}),
       {},
       "input 0 (dy) is [3, 3], expected [3, 2]"},
      {"WhereGrad",
       {B({2, 2}), F({2})},
       Attributes().Set("keep", int64_t{0}),
       {},
       "which does not broadcast to [2]"},
      {"LayerNormalizationGrad",
       {F({8, 3}), F({8, 3}), F({3}), F({8}), F({1})},
       LayerNorm(1),
       {},
       "input 4 (inverse_deviation) is [1], expected [8]"},
      {"Pad", {F({2})}, List("pads", {-1, 0}).Set("value", 0.0), {}, "expected 2 numbers >= 0"},
      {"Slice", {F({4})}, Slice({1}, {5}, {1}), {}, "takes [1, 5) of axis 0, which has 4 elements"},
      {"Slice", {F({4})}, Slice({2}, {2}, {1}), {}, "takes [2, 2)"},
      {"Slice", {F({4})}, Slice({0}, {2}, {0}), {}, "attribute steps"},
      {"Reshape", {F({4, 3})}, List("shape", {5}), {}, "cannot reshape [4, 3] to [5]"},
      {"Reshape", {F({4, 3})}, List("shape", {-1}), {}, "dimensions must be >= 0"},
      {"Transpose", {F({4, 3})}, List("perm", {0, 0}), {}, "perm is [0, 0], not a permutation"},
      {"Expand", {F({4, 3})}, List("shape", {4, 1}), {}, "does not broadcast to [4, 1]"},
      {"ReduceMean", {F({4, 3})}, List("axes", {1, 0}), {}, "expected ascending axes of [4, 3]"},
      {"ReduceSum", {F({4, 3})}, List("axes", {2}), {}, "expected ascending axes of [4, 3]"},
      {"SumTo", {F({4, 3})}, List("shape", {2, 3}), {}, "does not broadcast to the input's [4, 3]"},
      {"Softmax", {F({4, 3})}, Attributes().Set("axis", int64_t{2}), {}, "axis is 2"},
      {"Dropout", {F({4})}, Dropout(1), {}, "ratio is 1, expected 0 <= ratio < 1"},
      {"CrossEntropy", {F({8, 10}), F({8})}, {}, {}, "input 1 (labels) is float32, expected int64"},
      {"CrossEntropy", {F({8, 10}), L({8, 1})}, {}, {}, "(labels) is [8, 1], expected [8]"},
      {"CrossEntropy", {F({}), L({})}, {}, {}, "expected [.., C]"},
      {"Mse", {F({8, 2}), F({8})}, {}, {}, "input 1 (target) is [8], expected [8, 2]"},
      {"ConvGradInput",
       {F({8, 16, 9, 8}), F({16, 3, 3, 3})},
       Attributes(conv).Set("x_shape", Ints{8, 3, 9, 9}),
       {},
       "input 0 (dy) is [8, 16, 9, 8], expected [8, 16, 9, 9]"},
      {"ConvGradWeight",
       {F({8, 3, 9, 9}), F({8, 1, 9, 9})},
       Attributes(conv).Set("w_shape", Ints{16, 3, 3, 3}),
       {},
       "input 1 (dy) is [8, 1, 9, 9]"},
      {"ReluGrad", {F({2}), F({3})}, {}, {}, "is [3], expected [2]"},
      {"MaxPoolGrad",
       {F({8, 3, 4, 4}), F({1})},
       Attributes(pool).Set("x_shape", Ints{8, 3, 9, 9}),
       {},
       "input 1 (workspace) is float32, expected opaque"},
      {"AveragePoolGrad",
       {F({8, 3, 5, 4})},
       Attributes(pool).Set("x_shape", Ints{8, 3, 9, 9}),
       {},
       "input 0 (dy) is [8, 3, 5, 4], expected [8, 3, 4, 4]"},
      {"BatchNormalizationGrad",
       {F({8, 2}), F({8, 3}), F({3}), F({3}), F({3})},
       epsilon,
       {},
       "input 0 (dy) is [8, 2]"},
      {"CrossEntropyGrad", {F({8, 10}), L({8}), F({1})}, {}, {}, "input 2 (dloss) is [1]"},
      {"MseGrad", {F({8}), F({4}), F({})}, {}, {}, "input 1 (target) is [4]"},
  };
}

TEST(InferenceTest, SaysWhatDoesNotFit) {
  for (const InferenceCase& c : Misfits()) {
    SCOPED_TRACE(c.op + " " + c.attributes.ToString());
    EXPECT_THAT(Infer(c), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
}

TEST(CostTest, ProductsCountMultiplyAndAdd) {
  GraphBuilder builder;
  std::mt19937 random(1);
  ValueId x = builder.AddInput("x", kFloat, Shape({8, 4, 10, 10}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({6, 2, 3, 3}), random));
  ValueId b = builder.AddParameter("b", RandomTensor(Shape({6}), random));
  AddOp(builder, "conv", "Conv", {x, w, b}, Conv3x3().Set("group", int64_t{2}));
  ValueId a = builder.AddInput("a", kFloat, Shape({5, 7}));
  ValueId m = builder.AddParameter("m", RandomTensor(Shape({7, 3}), random));
  ValueId c = builder.AddParameter("c", RandomTensor(Shape({3}), random));
  AddOp(builder, "gemm", "Gemm", {a, m, c}, GemmAttributes());
  ValueId t = builder.AddInput("t", kFloat, Shape({2, 7, 5}));
  AddOp(builder, "matmul", "MatMul", {t, m}, Attributes().Set("trans_a", int64_t{1}));
  AddOp(builder, "relu", "Relu", {a});
  Graph graph = MustBuild(std::move(builder));
  auto cost = [&](std::string_view name) {
    return CostOf(graph, graph.node(FindNode(graph, name)));
  };
  double outputs = 8 * 6 * 10 * 10;
  EXPECT_EQ(cost("conv").flops, 2 * outputs * 2 * 3 * 3 + outputs);
  EXPECT_EQ(cost("conv").bytes, 4 * (8 * 4 * 100 + 6 * 2 * 9 + 6 + outputs));
  EXPECT_EQ(cost("gemm").flops, 2 * 5 * 7 * 3 + 5 * 3);
  EXPECT_EQ(cost("matmul").flops, 2 * 2 * 5 * 7 * 3);
  EXPECT_EQ(cost("relu").flops, 35);
  EXPECT_EQ(cost("relu").bytes, 4 * 70);
}

TEST(CostTest, ConvolutionGradientsCostAsMuchAsTheConvolution) {
  GraphBuilder builder;
  std::mt19937 random(1);
  ValueId x = builder.AddParameter("x", RandomTensor(Shape({2, 3, 8, 8}), random));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({4, 3, 3, 3}), random));
  ValueId y = AddOp(builder, "conv", "Conv", {x, w}, Conv3x3());
  builder.AddOutput(y);
  ASSERT_OK_AND_ASSIGN(TrainingGraph training, MakeTrainingGraph(MustBuild(std::move(builder)),
                                                                 {MseOn("conv:0", "target")}));
  double forward = 2.0 * 2 * 4 * 8 * 8 * 3 * 3 * 3;
  int gradients = 0;
  for (const Node& node : training.graph.nodes()) {
    if (node.op != "Conv" && node.op != "ConvGradInput" && node.op != "ConvGradWeight") continue;
    EXPECT_EQ(CostOf(training.graph, node).flops, forward) << node.op;
    ++gradients;
  }
  EXPECT_EQ(gradients, 3);
}

}  // namespace
}  // namespace pipedream
