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

TEST(Translate, SplitSizesOfEveryOpset) {
  auto split = [](int64_t opset, int64_t width, std::vector<int64_t> sizes, bool num_outputs) {
    OnnxBuilder b(opset);
    b.Input("x", {-1, width}).Output("p").Output("q");
    b.Ints("sizes", {static_cast<int64_t>(sizes.size())}, sizes);
    std::vector<std::string> inputs{"x"};
    if (!sizes.empty() && opset >= 13) inputs.push_back("sizes");
    auto node = b.Node("Split", inputs, {"p", "q"});
    node.Int("axis", -1);
    if (!sizes.empty() && opset < 13) node.Ints("split", sizes);
    if (num_outputs) node.Int("num_outputs", 2);
    return BindBuilt(b, {.batch = 3});
  };
  struct {
    int64_t opset, width;
    std::vector<int64_t> sizes;
    bool num_outputs;
    std::vector<int64_t> expected;
  } cases[] = {{11, 5, {4, 1}, false, {4, 1}}, {11, 6, {}, false, {3, 3}},
               {17, 5, {2, 3}, false, {2, 3}}, {17, 4, {}, false, {2, 2}},
               {18, 5, {}, true, {3, 2}},      {20, 5, {1, 4}, false, {1, 4}}};
  for (const auto& c : cases) {
    ASSERT_OK_AND_ASSIGN(Graph graph, split(c.opset, c.width, c.sizes, c.num_outputs));
    EXPECT_EQ(Only(graph).op, "Split");
    EXPECT_EQ(Only(graph).attributes.Int("axis"), 1);
    EXPECT_EQ(Only(graph).attributes.Ints("split"), c.expected);
    EXPECT_EQ(graph.value(graph.outputs()[1]).name, "q");
    EXPECT_EQ(graph.value(graph.outputs()[1]).shape, (Shape{3, c.expected[1]}));
  }
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(split(17, 5, {}, false), StatusIs(kInvalid, HasSubstr("do not split into 2")));
  EXPECT_THAT(split(17, 5, {2, 2}, false), StatusIs(kInvalid, HasSubstr("parts [2, 2]")));
  EXPECT_THAT(split(17, 5, {2, 2, 1}, false), StatusIs(kInvalid, HasSubstr("for 2 outputs")));
  EXPECT_THAT(split(17, 5, {7, -2}, false), StatusIs(kInvalid, HasSubstr("parts [7, -2]")));
  EXPECT_THAT(split(17, 5, {5, 0}, false), StatusIs(kUnimplemented, HasSubstr("empty part")));
}

TEST(Translate, ConcatJoinsWhatIsComputedAndFoldsWhatIsKnown) {
  OnnxBuilder b;
  b.Input("x", {-1, 2, 3}).Output("y").Weight("w", {1, 1, 3}).Ints("zero", {1}, {0});
  b.Ints("ones", {2}, {1, 1});
  b.Node("Shape", {"x"}, {"shape"});
  b.Node("Gather", {"shape", "zero"}, {"n"});
  b.Node("Concat", {"n", "ones"}, {"target"}).Int("axis", 0);
  b.Node("Expand", {"w", "target"}, {"cls"});
  b.Node("Concat", {"cls", "x"}, {"y"}).Int("axis", -2);
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 4}));
  EXPECT_THAT(OpsOf(graph), ElementsAre("Expand", "Concat"));
  EXPECT_EQ(graph.nodes()[1].attributes.Int("axis"), 1);
  EXPECT_EQ(graph.value(graph.outputs()[0]).shape, (Shape{4, 3, 3}));
  EXPECT_THAT(ValueNames(graph, ValueKind::kParameter), ElementsAre("w"));
  OnnxBuilder one;
  one.Input("x", {-1, 2}).Output("y");
  one.Node("Concat", {"x"}, {"h"}).Int("axis", 1);
  one.Node("Relu", {"h"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph alone, BindBuilt(one, {}));
  EXPECT_THAT(OpsOf(alone), ElementsAre("Relu"));
  OnnxBuilder no_axis;
  no_axis.Input("x", {-1, 2}).Output("y");
  no_axis.Node("Concat", {"x", "x"}, {"y"});
  EXPECT_THAT(LoadBuilt(no_axis),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'axis' is missing")));
}

OnnxBuilder Embedding(const std::vector<int64_t>& positions) {
  OnnxBuilder b;
  b.Input("x", {-1, 3}, onnx::TensorProto::INT64).Output("y");
  b.Weight("table", {7, 2}).Weight("places", {4, 2});
  b.Ints("positions", {static_cast<int64_t>(positions.size())}, positions);
  b.Node("Gather", {"table", "x"}, {"t"});
  b.Node("Gather", {"places", "positions"}, {"p"}).Int("axis", -2);
  b.Node("Add", {"t", "p"}, {"y"});
  return b;
}

TEST(Translate, EmbeddingsTrainWhetherTheirIndicesAreDataOrKnown) {
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(Embedding({0, 1, -1}), {.batch = 5}));
  EXPECT_THAT(OpsOf(graph), ElementsAre("Gather", "Gather", "Add"));
  EXPECT_EQ(graph.nodes()[1].attributes.Int("axis"), 0);
  EXPECT_EQ(graph.value(graph.outputs()[0]).shape, (Shape{5, 3, 2}));
  EXPECT_THAT(ValueNames(graph, ValueKind::kParameter), ElementsAre("places", "table"));
  EXPECT_THAT(LoadBuilt(Embedding({0, 1, 4})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("index 4 is outside axis 0 of [4, 2]")));
  OnnxBuilder b;
  b.Input("x", {-1, 3}).Output("y").Weight("table", {7, 2});
  b.Node("Gather", {"table", "x"}, {"y"});
  EXPECT_THAT(LoadBuilt(b), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("indices are float32, expected integers")));
}

// A causal mask as exporters write it, larger than what is small.
TEST(Translate, AttentionMasksFoldAndDoNotTrain) {
  OnnxBuilder b;
  b.Input("x", {-1, 9, 9}).Output("y");
  std::vector<float> mask(10 * 10, 0);
  for (int row = 0; row < 10; ++row)
    for (int column = 0; column <= row; ++column) mask[row * 10 + column] = 1;
  b.Floats("mask", {10, 10}, mask).Floats("zero", {}, {0}).Floats("low", {}, {-INFINITY});
  b.Ints("starts", {2}, {0, 0}).Ints("ends", {2}, {9, 9}).Ints("axes", {2}, {0, 1});
  b.Node("Slice", {"mask", "starts", "ends", "axes"}, {"part"});
  b.Node("Equal", {"part", "zero"}, {"hidden"});
  b.Node("Cast", {"hidden"}, {"flags"}).Int("to", onnx::TensorProto::BOOL);
  b.Node("Where", {"flags", "low", "x"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 2}));
  EXPECT_THAT(OpsOf(graph), ElementsAre("Where"));
  EXPECT_TRUE(ValueNames(graph, ValueKind::kParameter).empty());
  EXPECT_EQ(graph.value(Only(graph).inputs[0]).shape, (Shape{9, 9}));
  ASSERT_OK_AND_ASSIGN(ReferenceTensor y, RunOnCounting(graph));
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], -INFINITY);
  EXPECT_NEAR(y[9 * 8 + 8], 8.0, 1e-9);
}

TEST(Translate, WhereTakesBooleansAndFloats) {
  OnnxBuilder b;
  b.Input("x", {-1, 3}).Output("y");
  b.Node("Where", {"x", "x", "x"}, {"y"});
  EXPECT_THAT(LoadBuilt(b), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("condition is float32, expected bool")));
  OnnxBuilder ints;
  ints.Input("c", {-1, 3}, onnx::TensorProto::BOOL).Input("x", {-1, 3}, onnx::TensorProto::INT64);
  ints.Output("y");
  ints.Node("Where", {"c", "x", "x"}, {"y"});
  EXPECT_THAT(LoadBuilt(ints), StatusIs(kUnimplemented, HasSubstr("choice between int64")));
}

OnnxBuilder LayerNormModel(const std::vector<std::string>& outputs, int64_t axis,
                           const std::vector<int64_t>& scale) {
  OnnxBuilder b;
  b.Input("x", {-1, 2, 3}).Weight("s", scale).Weight("c", scale);
  for (const std::string& output : outputs) b.Output(output);
  b.Node("LayerNormalization", {"x", "s", "c"}, outputs).Int("axis", axis).Float("epsilon", 0.125f);
  return b;
}

TEST(Translate, LayerNormalizationAxes) {
  ASSERT_OK_AND_ASSIGN(Graph last, BindBuilt(LayerNormModel({"y"}, -1, {3}), {.batch = 4}));
  EXPECT_EQ(Only(last).attributes.Int("axis"), 2);
  EXPECT_EQ(Only(last).attributes.Float("epsilon"), 0.125);
  ASSERT_OK_AND_ASSIGN(Graph two, BindBuilt(LayerNormModel({"y"}, 1, {2, 3}), {.batch = 4}));
  EXPECT_EQ(Only(two).attributes.Int("axis"), 1);
  EXPECT_THAT(ValueNames(two, ValueKind::kParameter), ElementsAre("c", "s"));
  OnnxBuilder no_bias;
  no_bias.Input("x", {-1, 3}).Output("y").Weight("s", {3});
  no_bias.Node("LayerNormalization", {"x", "s", ""}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph plain, BindBuilt(no_bias, {}));
  EXPECT_EQ(Only(plain).attributes.Float("epsilon"), static_cast<double>(1e-5f));
  EXPECT_THAT(LoadBuilt(LayerNormModel({"y"}, 1, {3})),
              StatusIs(kUnimplemented, HasSubstr("input 1 is [3]; only the shape of")));
  EXPECT_THAT(LoadBuilt(LayerNormModel({"y", "m"}, -1, {3})),
              StatusIs(kUnimplemented, HasSubstr("output 1 (statistics) is used")));
  EXPECT_FALSE(LoadBuilt(LayerNormModel({"y"}, 3, {3})).ok());
  OnnxBuilder stash = LayerNormModel({"y"}, -1, {3});
  OnnxNode(stash.proto().mutable_graph()->mutable_node(0))
      .Int("stash_type", onnx::TensorProto::DOUBLE);
  EXPECT_THAT(LoadBuilt(stash), StatusIs(kUnimplemented, HasSubstr("stash_type")));
}

TEST(Translate, PowersHaveOneKnownExponent) {
  OnnxBuilder b;
  b.Input("x", {-1, 3}).Output("y").Ints("three", {}, {3});
  b.Node("Pow", {"x", "three"}, {"y"});
  ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {}));
  EXPECT_EQ(Only(graph).attributes.Float("exponent"), 3);
  ASSERT_OK_AND_ASSIGN(ReferenceTensor y, RunOnCounting(graph));
  EXPECT_NEAR(y[2], 0.008, 1e-12);
  OnnxBuilder many;
  many.Input("x", {-1, 3}).Output("y").Floats("e", {3}, {1, 2, 3});
  many.Node("Pow", {"x", "e"}, {"y"});
  EXPECT_THAT(LoadBuilt(many), StatusIs(kUnimplemented, HasSubstr("exponents of shape [3]")));
  OnnxBuilder computed;
  computed.Input("x", {-1, 3}).Output("y");
  computed.Node("Pow", {"x", "x"}, {"y"});
  EXPECT_THAT(LoadBuilt(computed), StatusIs(kUnimplemented, HasSubstr("computed at run time")));
}

TEST(Translate, GeluOfBothForms) {
  for (std::string form : {"none", "tanh"}) {
    OnnxBuilder b(20);
    b.Input("x", {-1, 3}).Output("y");
    b.Node("Gelu", {"x"}, {"y"}).String("approximate", form);
    ASSERT_OK_AND_ASSIGN(Graph graph, BindBuilt(b, {.batch = 4}));
    EXPECT_EQ(Only(graph).op, form == "none" ? "Gelu" : "GeluTanh");
    ASSERT_OK_AND_ASSIGN(ReferenceTensor y, RunOnCounting(graph));
    // gelu(1) = 0.8413447 exactly, 0.8411920 by tanh.
    EXPECT_NEAR(y[10], form == "none" ? 0.8413447461 : 0.8411919906, 1e-9);
  }
  OnnxBuilder other(20);
  other.Input("x", {-1, 3}).Output("y");
  other.Node("Gelu", {"x"}, {"y"}).String("approximate", "sigmoid");
  EXPECT_THAT(LoadBuilt(other),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'sigmoid'")));
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
