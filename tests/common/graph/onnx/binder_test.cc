#include "common/graph/onnx/binder.h"

#include <gtest/gtest.h>

#include "tests/common/graph/onnx/onnx_test_util.h"

namespace pipedream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST(Binder, ShapeArithmeticFoldsAway) {
  OnnxBuilder b;
  b.Input("x", {-1, 2, 6}).Output("y", {-1, 3, 4});
  b.Ints("zero", {}, {0}).Ints("axes", {1}, {0}).Ints("four", {1}, {4}).Ints("three", {1}, {3});
  b.Node("Shape", {"x"}, {"shape"});
  b.Node("Gather", {"shape", "zero"}, {"n"});
  b.Node("Unsqueeze", {"n", "axes"}, {"n1"});
  b.Node("Concat", {"n1", "three", "four"}, {"target"}).Int("axis", 0);
  b.Node("Reshape", {"x", "target"}, {"y"});
  for (int64_t batch : {1, 5}) {
    ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = batch}));
    EXPECT_THAT(OpsOf(graph), ElementsAre("Reshape"));
    EXPECT_EQ(graph.value(graph.outputs()[0]).shape, (Shape{batch, 3, 4}));
  }
}

TEST(Binder, EverythingUnsupportedIsListedAtOnce) {
  OnnxBuilder b;
  b.Input("x", {-1, 4}).Output("y").Ints("axes", {1}, {1});
  b.Node("Elu", {"x"}, {"a"});
  b.Node("Relu", {"a"}, {"b"});
  b.Node("Selu", {"b"}, {"c"}).Name("middle");
  b.Node("Shape", {"c"}, {"s"});
  b.Node("Reshape", {"c", "s"}, {"d"});
  b.Node("Hardmax", {"d"}, {"e"}).Int("axis", 1);
  b.Node("Pad", {"x", "p"}, {"f"}).String("mode", "reflect");
  b.Ints("p", {4}, {0, 1, 0, 1});
  b.Node("Add", {"e", "f"}, {"y"});
  EXPECT_THAT(LoadBuilt(b), StatusIs(absl::StatusCode::kUnimplemented,
                                     AllOf(HasSubstr("4 parts"), HasSubstr("'a': Elu (opset 17)"),
                                           HasSubstr("'middle': Selu (opset 17)"),
                                           HasSubstr("'e': Hardmax"), HasSubstr("reflect"))));
}

TEST(Binder, DeadNodesMayBeUnsupported) {
  OnnxBuilder b;
  b.Input("x", {-1, 4}).Output("y", {-1, 4});
  b.Node("Selu", {"x"}, {"unused"});
  b.Node("Relu", {"x"}, {"y"});
  ASSERT_OK_AND_ASSIGN(auto model, LoadBuilt(b));
  EXPECT_THAT(testing::PrintToString(model->warnings()), HasSubstr("1 nodes lead to no output"));
}

OnnxBuilder FixedBatch(const std::vector<int64_t>& target) {
  OnnxBuilder b;
  b.Input("x", {4, 2, 6}).Output("y").Ints("target", {static_cast<int64_t>(target.size())}, target);
  b.Node("Reshape", {"x", "target"}, {"h"});
  b.Node("Relu", {"h"}, {"y"});
  return b;
}

TEST(Binder, AFixedBatchIsRebound) {
  struct {
    std::vector<int64_t> target;
    Shape shape;
  } cases[] = {{{4, 12}, {5, 12}}, {{4, -1}, {5, 12}},     {{-1, 12}, {5, 12}}, {{0, -1}, {5, 12}},
               {{8, 6}, {10, 6}},  {{4, 3, 4}, {5, 3, 4}}, {{48}, {60}}};
  for (const auto& c : cases) {
    ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(FixedBatch(c.target), {.batch = 5}));
    EXPECT_EQ(graph.value(graph.outputs()[0]).shape, c.shape);
    ASSERT_OK_AND_ASSIGN(Graph same, BindBuilt(FixedBatch(c.target), {.batch = 4}));
    EXPECT_EQ(same.value(same.outputs()[0]).shape.elements(), 48);
  }
}

TEST(Binder, EveryOutputOfANodeFollowsTheBatch) {
  OnnxBuilder b;
  b.Input("x", {4, 6}).Output("y").Ints("target", {3}, {4, 3, 1});
  b.Node("Split", {"x"}, {"p", "q"}).Int("axis", 1);
  b.Node("Reshape", {"q", "target"}, {"r"});
  b.Node("Relu", {"r"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 5}));
  EXPECT_EQ(graph.value(graph.outputs()[0]).shape, (Shape{5, 3, 1}));
}

TEST(Binder, ABatchThatIsWrittenIntoTheModelIsNamed) {
  OnnxBuilder b;
  b.Input("x", {4, 6}).Output("y").Weight("w", {4, 6});
  b.Node("Add", {"x", "w"}, {"y"});
  EXPECT_OK(BindBuilt(b, {.batch = 4}));
  EXPECT_THAT(BindBuilt(b, {.batch = 5}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("exported for batch 4"), HasSubstr("'y'"))));
  OnnxBuilder sliced;
  sliced.Input("x", {4, 6}).Output("y").Ints("s", {1}, {0}).Ints("e", {1}, {4});
  sliced.Node("Slice", {"x", "s", "e"}, {"y"});
  EXPECT_THAT(BindBuilt(sliced, {.batch = 8}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not follow the batch")));
  // A symbolic axis, yet a number in the reshape.
  OnnxBuilder symbolic;
  symbolic.Input("x", {-1, 6}).Output("y", {-1, 12}).Ints("t", {2}, {-1, 12});
  symbolic.Node("Reshape", {"x", "t"}, {"y"});
  EXPECT_THAT(LoadBuilt(symbolic),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("declares its leading axis")));
}

TEST(Binder, OutputsThatAreAliasesKeepTheirNames) {
  OnnxBuilder b;
  b.Input("x", {-1, 4}).Output("copy").Output("y");
  b.Node("Relu", {"x"}, {"y"});
  b.Node("Identity", {"y"}, {"copy"});
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 2}));
  ASSERT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(graph.FindValue("copy"), graph.outputs()[0]);
  EXPECT_EQ(graph.FindValue("y"), graph.outputs()[1]);
}

TEST(Binder, NodeNamesAreUniqueAndTheSameInBothForms) {
  OnnxBuilder b;
  b.Input("x", {-1, 4}).Output("y").Floats("r", {}, {0.5f});
  b.Node("Relu", {"x"}, {"a"}).Name("same");
  b.Node("Dropout", {"a", "r"}, {"d"}).Name("same");
  b.Node("Tanh", {"d"}, {"y"}).Name("");
  ASSERT_OK_AND_ASSIGN(Graph training, BindBuilt(b, {.batch = 2}));
  ASSERT_OK_AND_ASSIGN(Graph inference, BindBuilt(b, {.form = GraphForm::kInference}));
  EXPECT_THAT(OpsOf(training), ElementsAre("Relu", "Dropout", "Tanh"));
  EXPECT_THAT(OpsOf(inference), ElementsAre("Relu", "Tanh"));
  EXPECT_EQ(training.nodes()[2].name, "y");
  EXPECT_EQ(inference.nodes()[1].name, "y");
  EXPECT_NE(training.nodes()[0].name, training.nodes()[1].name);
}

TEST(Binder, FunctionsInlineWithAttributesDefaultsAndNesting) {
  OnnxBuilder b;
  b.Input("x", {-1, 4}).Output("y", {-1, 4});
  auto& inner = b.Function("Inner", {"a"}, {"r"});
  AddOnnxNode(inner.mutable_node(), "HardSigmoid", {"a"}, {"r"})
      .Reference("alpha", "slope", onnx::AttributeProto::FLOAT);
  auto& outer = b.Function("Outer", {"a", "unused"}, {"r", "t"});
  AddOnnxNode(outer.mutable_node(), "Inner", {"a"}, {"t"}).Domain("local").Float("slope", 0.75f);
  AddOnnxNode(outer.mutable_node(), "Inner", {"t"}, {"r"}).Domain("local");
  b.Node("Outer", {"x"}, {"h"}).Domain("local");
  b.Node("Outer", {"h"}, {"y"}).Domain("local");
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 2}));
  EXPECT_THAT(OpsOf(graph),
              ElementsAre("HardSigmoid", "HardSigmoid", "HardSigmoid", "HardSigmoid"));
  EXPECT_FLOAT_EQ(graph.nodes()[0].attributes.Float("alpha"), 0.75f);
  EXPECT_FLOAT_EQ(graph.nodes()[1].attributes.Float("alpha"), 0.2f);  // not given: ONNX's default
}

TEST(Binder, FunctionsThatCallThemselvesOrExplodeAreRefused) {
  OnnxBuilder b;
  b.Input("x", {-1, 4}).Output("y");
  auto& loop = b.Function("Loop", {"a"}, {"r"});
  AddOnnxNode(loop.mutable_node(), "Loop", {"a"}, {"r"}).Domain("local");
  b.Node("Loop", {"x"}, {"y"}).Domain("local");
  EXPECT_THAT(LoadBuilt(b),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'Loop' calls itself")));

  OnnxBuilder bomb;
  bomb.Input("x", {-1, 4}).Output("y");
  for (int i = 0; i < 40; ++i) {  // 2^40 nodes
    auto& f = bomb.Function("F" + std::to_string(i), {"a"}, {"r"});
    std::string op = i == 0 ? "Relu" : "F" + std::to_string(i - 1);
    AddOnnxNode(f.mutable_node(), op, {"a"}, {"h"}).Domain(i == 0 ? "" : "local");
    AddOnnxNode(f.mutable_node(), op, {"h"}, {"r"}).Domain(i == 0 ? "" : "local");
  }
  bomb.Node("F39", {"x"}, {"y"}).Domain("local");
  EXPECT_THAT(LoadBuilt(bomb), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("200000")));
}

OnnxBuilder TwoLayers() {
  OnnxBuilder b;
  b.Input("x", {-1, 3}).Output("y").Weight("body.w", {3, 3}).Weight("head.w", {3, 2});
  b.Weight("head.b", {2}).Floats("half", {}, {0.5f});
  b.Node("MatMul", {"x", "body.w"}, {"a"});
  b.Node("Mul", {"a", "half"}, {"s"});
  b.Node("MatMul", {"s", "head.w"}, {"m"});
  b.Node("Add", {"m", "head.b"}, {"y"});
  return b;
}

TEST(Weights, PatternsOverrideTheRule) {
  OnnxBuilder b = TwoLayers();
  auto parameters = [&](std::vector<std::string> train, std::vector<std::string> freeze) {
    auto graph = BindBuilt(b, {.train = std::move(train), .freeze = std::move(freeze)});
    EXPECT_OK(graph);
    return graph.ok() ? ValueNames(*graph, ValueKind::kParameter) : std::set<std::string>{};
  };
  EXPECT_THAT(parameters({}, {}), UnorderedElementsAre("body.w", "head.w", "head.b"));
  EXPECT_THAT(parameters({}, {"body.*"}), UnorderedElementsAre("head.w", "head.b"));
  EXPECT_THAT(parameters({"head.*"}, {"*"}), UnorderedElementsAre("head.w", "head.b"));
  EXPECT_THAT(parameters({"half"}, {}), UnorderedElementsAre("body.w", "head.w", "head.b", "half"));
  EXPECT_THAT(BindBuilt(b, {.freeze = {"tail.*"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'tail.*'")));
}

TEST(Weights, ScalarsAreConstantsWithAWarning) {
  ASSERT_OK_AND_ASSIGN(auto model, LoadBuilt(TwoLayers()));
  EXPECT_THAT(testing::PrintToString(model->warnings()), HasSubstr("'half'"));
  ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({}));
  EXPECT_EQ(graph.nodes()[1].op, "Scale");
  EXPECT_FLOAT_EQ(graph.nodes()[1].attributes.Float("factor"), 0.5f);
}

TEST(Weights, CopiesThroughIdentityAreTiedWithAWarning) {
  OnnxBuilder b;
  b.Input("x", {-1, 3}).Output("y").Weight("w", {3, 3});
  b.Node("Identity", {"w"}, {"w1"});
  b.Node("Identity", {"w"}, {"w2"});
  b.Node("MatMul", {"x", "w1"}, {"h"});
  b.Node("MatMul", {"h", "w2"}, {"y"});
  ASSERT_OK_AND_ASSIGN(auto model, LoadBuilt(b));
  EXPECT_THAT(testing::PrintToString(model->warnings()),
              AllOf(HasSubstr("'w'"), HasSubstr("tied")));
  ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({}));
  EXPECT_THAT(ValueNames(graph, ValueKind::kParameter), ElementsAre("w"));
}

}  // namespace
}  // namespace pipedream
