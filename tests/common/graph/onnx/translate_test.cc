// Operators whose ONNX form leaves something open; expected numbers are worked out by hand.
#include "common/graph/onnx/translate.h"

#include <gtest/gtest.h>

#include "tests/common/graph/onnx/onnx_test_util.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

const Node& Only(const Graph& graph) {
  EXPECT_EQ(graph.node_count(), 1);
  return graph.nodes()[0];
}

TEST(Translate, AutoPadOfConvolutionsIsResolved) {
  // 7 wide, kernel 4, stride 2: 4 outputs need (4-1)*2+4-7 = 3 of padding.
  struct {
    std::string mode;
    std::vector<int64_t> pads;
    int64_t width;
  } cases[] = {{"SAME_UPPER", {1, 2}, 4}, {"SAME_LOWER", {2, 1}, 4}, {"VALID", {0, 0}, 2}};
  for (const auto& c : cases) {
    OnnxBuilder b;
    b.Input("x", {-1, 1, 7}).Output("y").Weight("w", {1, 1, 4});
    b.Node("Conv", {"x", "w"}, {"y"}).Ints("strides", {2}).String("auto_pad", c.mode);
    ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 2}));
    EXPECT_EQ(Only(graph).attributes.Ints("pads"), c.pads) << c.mode;
    EXPECT_EQ(Only(graph).attributes.Ints("kernel"), std::vector<int64_t>{4});
    EXPECT_EQ(graph.value(graph.outputs()[0]).shape, (Shape{2, 1, c.width}));
  }
}

TEST(Translate, CeilModeGoesIntoTheEndPads) {
  // Size 6, kernel 3, stride 2: floor gives 2 windows, ceil 3 (needs one more). Size 4, kernel 1,
  // stride 3: the window at 6 would start outside, so none is added.
  auto pool = [](const std::string& op, int64_t size, int64_t kernel, int64_t stride,
                 int64_t count) {
    OnnxBuilder b;
    b.Input("x", {-1, 1, size}).Output("y");
    auto node = b.Node(op, {"x"}, {"y"});
    node.Ints("kernel_shape", {kernel}).Ints("strides", {stride}).Int("ceil_mode", 1);
    if (op == "AveragePool") node.Int("count_include_pad", count);
    return BindBuilt(b, {.batch = 2});
  };
  ASSERT_OK_AND_ASSIGN(Graph grown, pool("MaxPool", 6, 3, 2, 0));
  EXPECT_EQ(Only(grown).attributes.Ints("pads"), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(grown.value(grown.outputs()[0]).shape, (Shape{2, 1, 3}));
  ASSERT_OK_AND_ASSIGN(Graph same, pool("MaxPool", 5, 1, 3, 0));
  EXPECT_EQ(same.value(same.outputs()[0]).shape, (Shape{2, 1, 2}));
  ASSERT_OK(pool("AveragePool", 6, 3, 2, 0));
  EXPECT_THAT(pool("AveragePool", 6, 3, 2, 1), StatusIs(kUnimplemented, HasSubstr("ceil_mode")));
}

TEST(Translate, GlobalPoolsCoverThePlane) {
  OnnxBuilder b;
  b.Input("x", {-1, 2, 3, 5}).Output("y");
  b.Node("GlobalAveragePool", {"x"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 4}));
  EXPECT_EQ(Only(graph).op, "AveragePool");
  EXPECT_EQ(Only(graph).attributes.Ints("kernel"), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(graph.value(graph.outputs()[0]).shape, (Shape{4, 2, 1, 1}));
}

OnnxBuilder BatchNorm(int64_t opset, int outputs, bool training_mode) {
  OnnxBuilder b(opset);
  b.Input("x", {-1, 2, 3, 3}).Output("y").Weight("s", {2}).Weight("c", {2}).Weight("m", {2});
  b.Floats("v", {2}, {1, 2});
  std::vector<std::string> names{"y", "o1", "o2", "o3", "o4"};
  names.resize(outputs);
  auto node = b.Node("BatchNormalization", {"x", "s", "c", "m", "v"}, names);
  node.Float("momentum", 0.75f).Float("epsilon", 0.125f);
  if (training_mode) node.Int("training_mode", 1);
  return b;
}

TEST(Translate, BatchNormalizationFollowsTheFormOfTheGraphNotOfTheFile) {
  for (auto& b : {BatchNorm(9, 5, false), BatchNorm(9, 1, false), BatchNorm(13, 1, false),
                  BatchNorm(15, 3, true), BatchNorm(15, 1, false)}) {
    ASSERT_OK_AND_ASSIGN(Graph training, BindBuilt(b, {.batch = 4}));
    EXPECT_THAT(OpsOf(training), ElementsAre("BatchNormalization", "UpdateRunningStatistics"));
    const Attributes& update = training.nodes()[1].attributes;
    EXPECT_EQ(update.Float("momentum"), 0.75);
    EXPECT_EQ(update.Int("count"), 4 * 9);
    ASSERT_OK_AND_ASSIGN(Graph inference, BindBuilt(b, {.form = GraphForm::kInference}));
    EXPECT_THAT(OpsOf(inference), ElementsAre("BatchNormalizationInference"));
    for (const Graph* graph : {&training, &inference}) {
      EXPECT_THAT(ValueNames(*graph, ValueKind::kParameter), ElementsAre("c", "s"));
      EXPECT_THAT(ValueNames(*graph, ValueKind::kState), ElementsAre("m", "v"));
    }
  }
}

TEST(Translate, DropoutTrainsWhateverTheFileSays) {
  OnnxBuilder old(9);
  old.Input("x", {-1, 4}).Output("y");
  old.Node("Dropout", {"x"}, {"y", "mask"}).Float("ratio", 0.25f);
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(old, {}));
  EXPECT_EQ(Only(graph).attributes.Float("ratio"), 0.25);
  EXPECT_EQ(Only(graph).attributes.Int("key"), onnx_import::StableHash("y"));
  OnnxBuilder absent(13);
  absent.Input("x", {-1, 4}).Output("y");
  absent.Node("Dropout", {"x"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph half, BindBuilt(absent, {}));
  EXPECT_EQ(Only(half).attributes.Float("ratio"), 0.5);
  OnnxBuilder zero(13);
  zero.Input("x", {-1, 4}).Output("y").Floats("r", {}, {0});
  zero.Node("Dropout", {"x", "r"}, {"h"});
  zero.Node("Relu", {"h"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph gone, BindBuilt(zero, {}));
  EXPECT_THAT(OpsOf(gone), ElementsAre("Relu"));
}

// FNV-1a of "a", from the published test vectors, without its lowest bit.
TEST(Translate, KeysOfDropoutAreTheSameEverywhere) {
  EXPECT_EQ(onnx_import::StableHash("a"), static_cast<int64_t>(0xaf63dc4c8601ec8cULL >> 1));
}

TEST(Translate, OldSoftmaxNormalizesOverAllAxesFromItsOwn) {
  OnnxBuilder b(11);
  b.Input("x", {-1, 2, 3}).Output("y");
  b.Node("Softmax", {"x"}, {"y"}).Int("axis", 1);
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 2}));
  ASSERT_OK_AND_ASSIGN(ReferenceTensor y, RunOnCounting(graph));
  for (int row = 0; row < 2; ++row) {
    double sum = 0;
    for (int i = 0; i < 6; ++i) sum += y[row * 6 + i];
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  OnnxBuilder newer(13);
  newer.Input("x", {-1, 2, 3}).Output("y");
  newer.Node("Softmax", {"x"}, {"y"}).Int("axis", 1);
  ASSERT_OK_AND_ASSIGN(Graph one, BindBuilt(newer, {.batch = 2}));
  EXPECT_EQ(Only(one).attributes.Int("axis"), 1);
}

TEST(Translate, AxesComeAsAttributesOrInputs) {
  for (int64_t opset : {11, 18}) {
    OnnxBuilder b(opset);
    b.Input("x", {-1, 2, 3}).Output("y").Ints("axes", {1}, {-1});
    std::vector<std::string> inputs{"x"};
    if (opset >= 18) inputs.push_back("axes");
    auto node = b.Node("ReduceMean", inputs, {"y"});
    node.Int("keepdims", 0);
    if (opset < 18) node.Ints("axes", {-1});
    ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 2}));
    EXPECT_EQ(Only(graph).attributes.Ints("axes"), std::vector<int64_t>{2});
    ASSERT_OK_AND_ASSIGN(ReferenceTensor y, RunOnCounting(graph));
    EXPECT_NEAR(y[1], 0.4, 1e-9);  // (0.3 + 0.4 + 0.5) / 3
  }
}

TEST(Translate, SlicesClampAndCountFromTheEnd) {
  OnnxBuilder b;
  b.Input("x", {-1, 10}).Output("y").Ints("s", {1}, {-9}).Ints("e", {1}, {INT64_MAX});
  b.Ints("a", {1}, {1}).Ints("t", {1}, {4});
  b.Node("Slice", {"x", "s", "e", "a", "t"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 1}));
  ASSERT_OK_AND_ASSIGN(ReferenceTensor y, RunOnCounting(graph));
  ASSERT_EQ(y.size(), 3u);  // elements 1, 5, 9
  EXPECT_NEAR(y[0], 0.1, 1e-9);
  EXPECT_NEAR(y[2], 0.9, 1e-9);
  OnnxBuilder back;
  back.Input("x", {-1, 10}).Output("y").Ints("s", {1}, {9}).Ints("e", {1}, {0});
  back.Ints("a", {1}, {1}).Ints("t", {1}, {-1});
  back.Node("Slice", {"x", "s", "e", "a", "t"}, {"y"});
  EXPECT_THAT(LoadBuilt(back), StatusIs(kUnimplemented, HasSubstr("negative step")));
}

TEST(Translate, PadsOfBothForms) {
  OnnxBuilder old(9);
  old.Input("x", {-1, 2}).Output("y");
  old.Node("Pad", {"x"}, {"y"}).Ints("pads", {0, 1, 0, 2}).Float("value", 7);
  OnnxBuilder newer(18);
  newer.Input("x", {-1, 2}).Output("y").Ints("p", {2}, {1, 2}).Floats("v", {}, {7});
  newer.Ints("a", {1}, {-1});
  newer.Node("Pad", {"x", "p", "v", "a"}, {"y"});
  for (const auto& b : {old, newer}) {
    ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 1}));
    ASSERT_OK_AND_ASSIGN(ReferenceTensor y, RunOnCounting(graph));
    EXPECT_THAT(y, ElementsAre(7, 0, testing::DoubleNear(0.1, 1e-9), 7, 7));
  }
  OnnxBuilder crop;
  crop.Input("x", {-1, 4}).Output("y").Ints("p", {4}, {0, -1, 0, 0});
  crop.Node("Pad", {"x", "p"}, {"y"});
  EXPECT_THAT(LoadBuilt(crop), StatusIs(kUnimplemented, HasSubstr("negative pads")));
}

TEST(Translate, ClipLimitsOfBothForms) {
  OnnxBuilder old(9);
  old.Input("x", {-1, 4}).Output("y");
  old.Node("Clip", {"x"}, {"y"}).Float("max", 0.15f);
  OnnxBuilder newer(13);
  newer.Input("x", {-1, 4}).Output("y").Floats("max", {}, {0.15f});
  newer.Node("Clip", {"x", "", "max"}, {"y"});
  for (const auto& b : {old, newer}) {
    ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {}));
    EXPECT_EQ(Only(graph).attributes.Float("min"), -std::numeric_limits<double>::infinity());
    EXPECT_EQ(Only(graph).attributes.Float("max"), static_cast<double>(0.15f));
    EXPECT_TRUE(ValueNames(graph, ValueKind::kParameter).empty());
  }
}

TEST(Translate, MatMulTakesVectors) {
  OnnxBuilder b;
  b.Input("x", {-1, 3}).Output("y").Floats("w", {3}, {1, 10, 100});
  b.Node("MatMul", {"x", "w"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 2}));
  EXPECT_EQ(graph.value(graph.outputs()[0]).shape, Shape{2});
  ASSERT_OK_AND_ASSIGN(ReferenceTensor y, RunOnCounting(graph));
  EXPECT_NEAR(y[0], 21, 1e-6);    // 0 + 1 + 20
  EXPECT_NEAR(y[1], 54.3, 1e-6);  // 0.3 + 4 + 50
}

TEST(Translate, SumIsAChainInOrder) {
  OnnxBuilder b;
  b.Input("x", {-1, 2}).Output("y");
  b.Node("Relu", {"x"}, {"r"});
  b.Node("Sum", {"x", "r", "x"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {}));
  EXPECT_THAT(OpsOf(graph), ElementsAre("Relu", "Add", "Add"));
  EXPECT_EQ(graph.nodes()[2].name, "y");
}

TEST(Translate, LossFormsThatDifferAreRefused) {
  auto loss = [](const std::string& attribute, const std::string& value) {
    OnnxBuilder b;
    b.Input("x", {-1, 3}).Input("t", {-1}, onnx::TensorProto::INT64).Output("y");
    auto node = b.Node("SoftmaxCrossEntropyLoss", {"x", "t"}, {"y"});
    if (attribute == "ignore_index")
      node.Int(attribute, -1);
    else
      node.String(attribute, value);
    return LoadBuilt(b);
  };
  EXPECT_OK(loss("reduction", "mean"));
  EXPECT_THAT(loss("reduction", "sum"), StatusIs(kUnimplemented, HasSubstr("'sum'")));
  EXPECT_THAT(loss("ignore_index", ""), StatusIs(kUnimplemented, HasSubstr("ignore_index")));
}

TEST(Translate, AttributesOfTheWrongTypeAreNamed) {
  OnnxBuilder b;
  b.Input("x", {-1, 3}).Output("y").Weight("w", {3, 3});
  b.Node("Gemm", {"x", "w"}, {"y"}).Float("transB", 1);
  EXPECT_THAT(LoadBuilt(b), StatusIs(absl::StatusCode::kInvalidArgument,
                                     testing::AllOf(HasSubstr("'transB'"), HasSubstr("FLOAT"),
                                                    HasSubstr("'y'"))));
}

}  // namespace
}  // namespace pipedream
