// Every differentiable operator against central differences, both computed in double precision by
// the reference interpreter.
#include <cmath>
#include <limits>
#include <set>

#include "common/graph/op_def.h"
#include "tests/common/graph/op_defs/op_attributes.h"
#include "tests/support/reference_ops.h"

namespace pipedream {
namespace {

constexpr uint32_t kSeed = 20240607;

struct GradientCase {
  std::string name;
  std::string op;
  std::vector<Shape> inputs;
  Attributes attributes = {};
  float low = -2;  // range of the inputs' values
  float high = 2;
  std::map<size_t, Tensor> constants = {};  // inputs that do not train, by position
};

using Given = std::map<std::string, ReferenceTensor>;

double LossAt(const TrainingGraph& training, const Given& given) {
  auto values = RunReferenceGraph(training.graph, given, training.forward_nodes);
  EXPECT_OK(values);
  return values.ok() ? (*values)[training.loss.value()][0] : NAN;
}

// Compares every parameter's gradient, up to about 15 elements of each.
void ExpectGradientsMatchDifferences(const TrainingGraph& training, Given given) {
  for (const Value& value : training.graph.values()) {
    if (value.kind != ValueKind::kParameter) continue;
    auto data = value.data.as<float>();
    given[value.name] = ReferenceTensor(data.begin(), data.end());
  }
  auto values = RunReferenceGraph(training.graph, given);
  ASSERT_OK(values);
  for (const ParameterGradient& g : training.gradients) {
    const std::string& name = training.graph.value(g.parameter).name;
    const ReferenceTensor& gradient = (*values)[g.gradient.value()];
    ASSERT_EQ(gradient.size(), given[name].size()) << name;
    size_t stride = 1 + gradient.size() / 15;
    if (stride > 1) stride |= 1;  // so that it does not follow the rows
    for (size_t i = 0; i < gradient.size(); i += stride) {
      constexpr double kStep = 1e-5;
      Given moved = given;
      moved[name][i] += kStep;
      double above = LossAt(training, moved);
      moved[name][i] -= 2 * kStep;
      double difference = (above - LossAt(training, moved)) / (2 * kStep);
      ASSERT_NEAR(gradient[i], difference, 1e-7 + 1e-6 * std::abs(difference))
          << name << "[" << i << "], seed " << kSeed;
    }
  }
}

Attributes Trans(bool a, bool b) {
  return Attributes().Set("trans_a", int64_t{a}).Set("trans_b", int64_t{b});
}
Tensor Indices(Shape shape, const Ints& values) { return Tensor::FromVector(shape, values); }
Tensor Flags(Shape shape, const std::vector<uint8_t>& values) {
  return Tensor::Copy(DataType::kBool, std::move(shape), std::as_bytes(std::span(values)));
}
Attributes Lrn(int64_t size) {
  return Attributes().Set("size", size).Set("alpha", 0.3).Set("beta", 0.75).Set("bias", 1.5);
}

void AddProductCases(std::vector<GradientCase>& cases) {
  for (bool a : {false, true}) {
    for (bool b : {false, true}) {
      Shape left = a ? Shape({3, 4}) : Shape({4, 3});
      Shape right = b ? Shape({2, 3}) : Shape({3, 2});
      std::string suffix = std::string(a ? "At" : "A") + (b ? "Bt" : "B");
      cases.push_back(
          {"Gemm" + suffix, "Gemm", {left, right, Shape({2})}, GemmAttributes(a, b, 0.7, -1.5)});
      cases.push_back({"MatMul" + suffix, "MatMul", {left, right}, Trans(a, b)});
      Shape batch = a ? Shape({5, 1, 3, 4}) : Shape({5, 1, 4, 3});
      Shape batch_right = b ? Shape({2, 2, 3}) : Shape({2, 3, 2});
      cases.push_back({"MatMulBatch" + suffix, "MatMul", {batch, batch_right}, Trans(a, b)});
      cases.push_back({"MatMulWeight" + suffix, "MatMul", {batch, right}, Trans(a, b)});
    }
  }
  cases.push_back({"GemmNoBias", "Gemm", {Shape({4, 3}), Shape({3, 2})}, GemmAttributes()});
  cases.push_back(
      {"GemmColumn", "Gemm", {Shape({4, 3}), Shape({3, 2}), Shape({4, 1})}, GemmAttributes()});
  cases.push_back({"GemmFull",
                   "Gemm",
                   {Shape({4, 3}), Shape({3, 2}), Shape({4, 2})},
                   GemmAttributes(false, false, 1, 2)});
}

void AddSpatialCases(std::vector<GradientCase>& cases) {
  Shape x({2, 4, 6, 5});
  cases.push_back({"Conv", "Conv", {x, Shape({3, 4, 3, 3}), Shape({3})}, Conv3x3()});
  cases.push_back({"ConvStrided",
                   "Conv",
                   {x, Shape({3, 4, 3, 2})},
                   ConvAttributes({3, 2}, {2, 1}, {1, 0, 0, 1}, {1, 2})});
  cases.push_back({"ConvGrouped",
                   "Conv",
                   {x, Shape({6, 2, 3, 3}), Shape({6})},
                   Conv3x3().Set("group", int64_t{2})});
  cases.push_back(
      {"ConvDepthwise", "Conv", {x, Shape({4, 1, 3, 3})}, Conv3x3().Set("group", int64_t{4})});
  cases.push_back({"Conv1D",
                   "Conv",
                   {Shape({2, 3, 7}), Shape({2, 3, 3})},
                   ConvAttributes({3}, {2}, {1, 1}, {1})});
  cases.push_back({"Conv3D",
                   "Conv",
                   {Shape({1, 2, 3, 4, 3}), Shape({2, 2, 2, 2, 2})},
                   ConvAttributes({2, 2, 2}, {1, 2, 1}, {0, 1, 0, 1, 0, 0}, {1, 1, 1})});
  cases.push_back(
      {"MaxPool", "MaxPool", {x}, WindowAttributes({3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1})});
  cases.push_back(
      {"MaxPoolDilated", "MaxPool", {x}, WindowAttributes({2, 2}, {1, 1}, {0, 0, 0, 0}, {2, 2})});
  for (int64_t include : {0, 1}) {
    cases.push_back(
        {"AveragePool",
         "AveragePool",
         {x},
         WindowAttributes({3, 2}, {2, 1}, {1, 1, 1, 0}).Set("count_include_pad", include)});
  }
  cases.push_back(
      {"AveragePoolGlobal", "AveragePool", {x}, WindowAttributes({6, 5}, {1, 1}, {0, 0, 0, 0})});
}

void AddMovementCases(std::vector<GradientCase>& cases) {
  Shape x({4, 3, 5});
  cases.push_back({"Pad", "Pad", {x}, List("pads", {0, 1, 2, 3, 0, 1}).Set("value", 0.5)});
  cases.push_back({"Slice", "Slice", {x}, Slice({1, 0, 2}, {3, 3, 5}, {1, 1, 1})});
  cases.push_back({"SliceSteps", "Slice", {x}, Slice({1, 0, 0}, {4, 3, 5}, {2, 2, 3})});
  cases.push_back({"SliceStepsPartly", "Slice", {Shape({9})}, Slice({1}, {6}, {3})});
  cases.push_back({"SliceStepsToTheEnd", "Slice", {Shape({9})}, Slice({1}, {9}, {3})});
  cases.push_back({"SliceAll", "Slice", {x}, Slice({0, 0, 0}, {4, 3, 5}, {1, 1, 1})});
  cases.push_back({"Reshape", "Reshape", {x}, List("shape", {2, 30})});
  cases.push_back({"Transpose", "Transpose", {x}, List("perm", {2, 0, 1})});
  cases.push_back({"Expand", "Expand", {Shape({3, 1})}, List("shape", {2, 3, 4})});
  cases.push_back({"SumTo", "SumTo", {x}, List("shape", {3, 1})});
  for (std::string op : {"ReduceMean", "ReduceSum"}) {
    cases.push_back({op, op, {x}, List("axes", {0, 2})});
    cases.push_back({op + "Keep", op, {x}, List("axes", {1}).Set("keepdims", int64_t{1})});
    cases.push_back({op + "All", op, {x}, List("axes", {0, 1, 2})});
  }
}

void AddSelectionCases(std::vector<GradientCase>& cases) {
  Shape x({4, 3, 5});
  cases.push_back({"Concat", "Concat", {x, Shape({4, 1, 5}), Shape({4, 2, 5})}, Axis(1)});
  cases.push_back({"ConcatFirst", "Concat", {x, Shape({1, 3, 5})}, Axis(0)});
  cases.push_back({"ConcatLast", "Concat", {Shape({2, 3}), Shape({2, 4})}, Axis(1)});
  auto gather = [&](std::string name, Shape from, int64_t axis, Tensor indices) {
    cases.push_back({std::move(name), "Gather", {from, indices.shape()}, Axis(axis)});
    cases.back().constants.emplace(1, std::move(indices));
  };
  gather("GatherRows", Shape({4, 3}), 0, Indices(Shape({2, 3}), {0, 3, 3, -1, 1, 3}));
  gather("GatherMiddle", x, 1, Indices(Shape({2}), {2, 2}));
  gather("GatherLast", x, 2, Indices(Shape({2, 2}), {4, -5, 0, 1}));
  gather("GatherOne", x, 1, Indices(Shape(), {-1}));
  auto where = [&](std::string name, Tensor condition, Shape a, Shape b) {
    cases.push_back({std::move(name), "Where", {condition.shape(), a, b}});
    cases.back().constants.emplace(0, std::move(condition));
  };
  where("Where", Flags(Shape({2, 3}), {1, 0, 0, 1, 1, 0}), Shape({2, 3}), Shape({2, 3}));
  where("WhereMask", Flags(Shape({3, 5}), {1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1}), Shape(),
        x);
  where("WhereBoth", Flags(Shape({3, 1}), {1, 0, 1}), Shape({5}), Shape({2, 1, 1}));
  for (int64_t axis : {0, 1, 2}) {
    Shape normalized(Ints(x.dims().begin() + axis, x.dims().end()));
    cases.push_back(
        {"LayerNormalization", "LayerNormalization", {x, normalized, normalized}, LayerNorm(axis)});
  }
  cases.push_back({"LayerNormalizationNoBias",
                   "LayerNormalization",
                   {Shape({6, 7}), Shape({7})},
                   LayerNorm(1)});
}

std::vector<GradientCase> GradientCases() {
  Shape x({4, 3, 5});
  std::vector<GradientCase> cases;
  AddProductCases(cases);
  AddSpatialCases(cases);
  AddMovementCases(cases);
  AddSelectionCases(cases);
  for (std::string op : {"Add", "Sub", "Mul", "Div"}) {
    float low = op == "Div" ? 0.5f : -2;
    cases.push_back({op, op, {x, x}, {}, low});
    cases.push_back({op + "Left", op, {Shape({3, 1}), x}, {}, low});
    cases.push_back({op + "Right", op, {x, Shape({5})}, {}, low});
    cases.push_back({op + "Both", op, {Shape({4, 1, 5}), Shape({3, 1})}, {}, low});
    cases.push_back({op + "Scalar", op, {x, Shape()}, {}, low});
  }
  cases.push_back({"Scale", "Scale", {x}, Float("factor", -1.5)});
  for (std::string op : {"Relu", "Sigmoid", "Tanh", "HardSwish", "Erf", "Gelu", "GeluTanh"}) {
    cases.push_back({op, op, {x}, {}, -5, 5});
  }
  cases.push_back({"HardSigmoid", "HardSigmoid", {x}, Float("alpha", 0.3).Set("beta", 0.4), -4, 4});
  cases.push_back({"Sqrt", "Sqrt", {x}, {}, 0.5f});
  for (double exponent : {1.0, 2.0, 3.0, 4.0}) {
    cases.push_back({"Pow", "Pow", {x}, Float("exponent", exponent)});
  }
  for (double exponent : {0.5, -1.0, 2.5}) {
    cases.push_back({"PowOfPositive", "Pow", {x}, Float("exponent", exponent), 0.5f});
  }
  cases.push_back({"Clip", "Clip", {x}, Float("min", -0.5).Set("max", 1.0)});
  cases.push_back({"ClipAbove", "Clip", {x}, Float("min", -kInfinity).Set("max", 1.0)});
  for (Shape shape : {Shape({6, 3}), Shape({4, 3, 5}), Shape({2, 3, 2, 2})}) {
    cases.push_back({"BatchNormalization",
                     "BatchNormalization",
                     {shape, Shape({3}), Shape({3})},
                     Float("epsilon", 0.1)});
  }
  for (int64_t size : {1, 3, 4, 5}) cases.push_back({"LRN", "LRN", {Shape({2, 6, 3})}, Lrn(size)});
  for (int64_t axis : {0, 1, 2}) cases.push_back({"Softmax", "Softmax", {x}, Axis(axis)});
  cases.push_back({"Dropout", "Dropout", {x}, Float("ratio", 0.4).Set("key", int64_t{5})});
  return cases;
}

// op(parameters), weighted and summed.
TrainingGraph WeightedSumOf(const GradientCase& c) {
  std::mt19937 random(kSeed);
  GraphBuilder builder;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    std::string name = "p" + std::to_string(i);
    auto constant = c.constants.find(i);
    inputs.push_back(
        constant != c.constants.end()
            ? builder.AddConstant(name, constant->second)
            : builder.AddParameter(name, RandomTensor(c.inputs[i], random, c.low, c.high)));
  }
  ValueId y = AddOp(builder, "op", c.op, inputs, c.attributes);
  Shape shape = builder.graph().value(y).shape;
  ValueId weights = builder.AddConstant("weights", RandomTensor(shape, random));
  ValueId weighted = AddOp(builder, "weighted", "Mul", {y, weights});
  Ints axes;
  for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
  builder.AddOutput(AddOp(builder, "sum", "ReduceSum", {weighted}, List("axes", axes)));
  auto training = MakeTrainingGraph(MustBuild(std::move(builder)), {OutputAsLoss("sum:0")});
  EXPECT_OK(training);
  return *std::move(training);
}

TEST(GradientTest, MatchesDifferencesForEveryOperator) {
  for (const GradientCase& c : GradientCases()) {
    SCOPED_TRACE(c.name + " " + c.attributes.ToString());
    TrainingGraph training = WeightedSumOf(c);
    EXPECT_EQ(training.gradients.size(), c.inputs.size() - c.constants.size());
    ExpectGradientsMatchDifferences(training, {});
  }
}

TEST(GradientTest, EveryOperatorWithAGradientIsTried) {
  std::set<std::string> tried = {"CrossEntropy", "Mse", "Split"};
  for (const GradientCase& c : GradientCases()) tried.insert(c.op);
  for (const OpDef* def : AllOpDefs()) {
    EXPECT_EQ(def->gradient != nullptr, tried.count(std::string(def->name)) == 1) << def->name;
  }
}

// Whichever of the parts lead to the loss.
TEST(GradientTest, SplitMatchesDifferences) {
  for (const std::set<int>& read :
       std::vector<std::set<int>>{{0, 1, 2, 3}, {0}, {3}, {1, 2}, {0, 3}, {0, 2}, {0, 1, 3}}) {
    SCOPED_TRACE(testing::PrintToString(read));
    std::mt19937 random(kSeed);
    GraphBuilder builder;
    ValueId w = builder.AddParameter("w", RandomTensor(Shape({2, 7, 3}), random));
    auto parts = AddAll(builder, "split", "Split", {w}, Axis(1).Set("split", Ints{2, 1, 3, 1}));
    ValueId sum = kNoValue;
    for (int i : read) {
      ValueId square = AddOp(builder, "square", "Mul", {parts[i], parts[i]});
      ValueId mean = AddOp(builder, "mean", "ReduceMean", {square}, List("axes", {0, 1, 2}));
      sum = sum == kNoValue ? mean : AddOp(builder, "sum", "Add", {sum, mean});
    }
    std::string loss = builder.graph().value(sum).name;
    builder.AddOutput(sum);
    ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                         MakeTrainingGraph(MustBuild(std::move(builder)), {OutputAsLoss(loss)}));
    ExpectGradientsMatchDifferences(training, {});
  }
}

// An embedding that is also the last layer, as small language models have it.
TEST(GradientTest, ATableReadByGatherAndByAProductAddsItsGradients) {
  std::mt19937 random(kSeed);
  GraphBuilder builder;
  ValueId table = builder.AddParameter("table", RandomTensor(Shape({5, 4}), random));
  ValueId tokens = builder.AddInput("tokens", DataType::kInt64, Shape({2, 3}));
  ValueId x = AddOp(builder, "embed", "Gather", {table, tokens}, Axis(0));
  ValueId h = AddOp(builder, "h", "Tanh", {x});
  ValueId turned = AddOp(builder, "turned", "Transpose", {table}, List("perm", {1, 0}));
  builder.AddOutput(AddOp(builder, "logits", "MatMul", {h, turned}));
  ASSERT_OK_AND_ASSIGN(
      TrainingGraph training,
      MakeTrainingGraph(MustBuild(std::move(builder)), {CrossEntropyOn("logits:0", "y")}));
  ASSERT_EQ(training.gradients.size(), 1u);
  ExpectGradientsMatchDifferences(training,
                                  {{"tokens", {4, 0, 4, 1, 2, 4}}, {"y", {0, 1, 2, 3, 4, 0}}});
}

TEST(GradientTest, CrossEntropyMatchesDifferences) {
  for (Shape shape : {Shape({4, 5}), Shape({2, 3, 4})}) {
    std::mt19937 random(kSeed);
    GraphBuilder builder;
    ValueId w = builder.AddParameter("w", RandomTensor(shape, random));
    builder.AddOutput(AddOp(builder, "logits", "Scale", {w}, Float("factor", 3)));
    ASSERT_OK_AND_ASSIGN(
        TrainingGraph training,
        MakeTrainingGraph(MustBuild(std::move(builder)), {CrossEntropyOn("logits:0", "y")}));
    ReferenceTensor labels;
    for (int i = 0; i < shape.elements() / shape[shape.rank() - 1]; ++i) labels.push_back(i % 4);
    ExpectGradientsMatchDifferences(training, {{"y", labels}});
  }
}

TEST(GradientTest, MseMatchesDifferencesForPredictionAndTarget) {
  std::mt19937 random(kSeed);
  GraphBuilder builder;
  ValueId a = builder.AddParameter("a", RandomTensor(Shape({3, 2}), random));
  ValueId b = builder.AddParameter("b", RandomTensor(Shape({3, 2}), random));
  builder.AddOutput(AddOp(builder, "loss", "Mse", {a, b}));
  ASSERT_OK_AND_ASSIGN(TrainingGraph training, MakeTrainingGraph(MustBuild(std::move(builder)),
                                                                 {OutputAsLoss("loss:0", 2.5)}));
  EXPECT_EQ(training.gradients.size(), 2u);
  ExpectGradientsMatchDifferences(training, {});
}

TEST(GradientTest, ValuesUsedSeveralTimesMatchDifferences) {
  std::mt19937 random(kSeed);
  GraphBuilder builder;
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId wt = AddOp(builder, "t", "Transpose", {w}, List("perm", {1, 0}));
  ValueId a = AddOp(builder, "a", "MatMul", {x, wt});
  ValueId b = AddOp(builder, "b", "Tanh", {AddOp(builder, "b0", "MatMul", {a, w})});
  ValueId square = AddOp(builder, "square", "Mul", {b, b});
  ValueId twice = AddOp(builder, "twice", "Add", {square, square});
  ValueId skip = AddOp(builder, "skip", "Add", {twice, a});
  builder.AddOutput(AddOp(builder, "mean", "ReduceMean", {skip}, List("axes", {0, 1})));
  builder.AddOutput(b);
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(MustBuild(std::move(builder)),
                                         {OutputAsLoss("mean:0", 0.5), MseOn("b:0", "target", 3)}));
  ExpectGradientsMatchDifferences(
      training, {{"x", {0.3, -0.2, 0.9, 1.1, -0.7, 0.4}}, {"target", {0, 1, 0.5, -0.5, 0.2, 0}}});
}

}  // namespace
}  // namespace pipedream
