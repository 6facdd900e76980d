// The reference interpreter against values worked out by hand.
#include "tests/support/reference_ops.h"

#include "tests/common/graph/test_graphs.h"

namespace pipedream {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

// Outputs of one node on inputs of these shapes and contents.
std::vector<ReferenceTensor> Eval(std::string_view op, std::vector<Shape> shapes,
                                  std::vector<ReferenceTensor> inputs, Attributes attributes = {}) {
  GraphBuilder builder;
  std::vector<ValueId> ids;
  for (size_t i = 0; i < shapes.size(); ++i) {
    DataType type = DataType::kFloat32;
    if (i == 1 && (op == "CrossEntropy" || op.starts_with("Gather"))) type = DataType::kInt64;
    if (i == 0 && op.starts_with("Where")) type = DataType::kBool;
    ids.push_back(builder.AddInput("i", type, shapes[i]));
  }
  AddAll(builder, "op", op, ids, std::move(attributes));
  auto result = RunReference(builder.graph(), builder.graph().node(NodeId(0)), inputs);
  EXPECT_OK(result);
  return *std::move(result);
}

testing::Matcher<const std::vector<double>&> Near(std::vector<double> expected) {
  return Pointwise(testing::DoubleNear(1e-12), expected);
}

TEST(ReferenceOpsTest, Convolution) {
  // 1 2 3 / 4 5 6 / 7 8 9 with a kernel 1 0 / 0 -1 and one row and column of zeros in front.
  auto y = Eval("Conv", {Shape({1, 1, 3, 3}), Shape({1, 1, 2, 2}), Shape({1})},
                {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 0, 0, -1}, {10}},
                ConvAttributes({2, 2}, {2, 2}, {1, 1, 0, 0}, {1, 1}));
  EXPECT_THAT(y[0], ElementsAre(9, 7, 3, 6));
}

TEST(ReferenceOpsTest, Products) {
  auto y = Eval("Gemm", {Shape({2, 2}), Shape({2, 2}), Shape({2})},
                {{1, 2, 3, 4}, {5, 6, 7, 8}, {1, -1}}, GemmAttributes(true, false, 2, 3));
  // a' = 1 3 / 2 4; a' b = 26 30 / 38 44.
  EXPECT_THAT(y[0], ElementsAre(55, 57, 79, 85));
  y = Eval("MatMul", {Shape({2, 1, 2}), Shape({2, 1})}, {{1, 2, 3, 4}, {5, 6}});
  EXPECT_THAT(y[0], ElementsAre(17, 39));
}

TEST(ReferenceOpsTest, Pools) {
  Shape x({1, 1, 2, 3});
  ReferenceTensor data = {1, 5, 2, 4, 3, 6};
  auto y = Eval("MaxPool", {x}, {data}, WindowAttributes({2, 2}, {1, 1}, {0, 0, 0, 0}, {1, 1}));
  EXPECT_THAT(y[0], ElementsAre(5, 6));
  EXPECT_THAT(y[1], ElementsAre(1, 5));
  Attributes padded = WindowAttributes({2, 2}, {2, 2}, {0, 0, 0, 1});
  y = Eval("AveragePool", {x}, {data}, Attributes(padded).Set("count_include_pad", int64_t{0}));
  EXPECT_THAT(y[0], ElementsAre(3.25, 4));
  y = Eval("AveragePool", {x}, {data}, padded.Set("count_include_pad", int64_t{1}));
  EXPECT_THAT(y[0], ElementsAre(3.25, 2));
}

TEST(ReferenceOpsTest, Normalizations) {
  auto y = Eval("BatchNormalization", {Shape({2, 1}), Shape({1}), Shape({1})}, {{1, 5}, {3}, {10}},
                Attributes().Set("epsilon", 0.0));
  EXPECT_THAT(y[0], Near({7, 13}));
  EXPECT_THAT(y[1], ElementsAre(3));
  EXPECT_THAT(y[2], ElementsAre(4));
  auto running =
      Eval("UpdateRunningStatistics", {Shape({1}), Shape({1}), Shape({1}), Shape({1})},
           {{3}, {4}, {1}, {2}}, Attributes().Set("momentum", 0.75).Set("count", int64_t{2}));
  EXPECT_THAT(running[0], ElementsAre(1.5));
  EXPECT_THAT(running[1], ElementsAre(3.5));  // 0.75 * 2 + 0.25 * 4 * 2 / 1
  auto lrn = Eval(
      "LRN", {Shape({1, 3})}, {{1, 2, 3}},
      Attributes().Set("size", int64_t{3}).Set("alpha", 3.0).Set("beta", 1.0).Set("bias", 1.0));
  EXPECT_THAT(lrn[0], Near({1.0 / 6, 2.0 / 15, 3.0 / 14}));
}

TEST(ReferenceOpsTest, Movements) {
  auto y = Eval("Transpose", {Shape({2, 3})}, {{1, 2, 3, 4, 5, 6}},
                Attributes().Set("perm", Ints{1, 0}));
  EXPECT_THAT(y[0], ElementsAre(1, 4, 2, 5, 3, 6));
  y = Eval("Slice", {Shape({2, 3})}, {{1, 2, 3, 4, 5, 6}},
           Attributes().Set("starts", Ints{1, 0}).Set("ends", Ints{2, 3}).Set("steps", Ints{1, 2}));
  EXPECT_THAT(y[0], ElementsAre(4, 6));
  y = Eval("Pad", {Shape({2})}, {{1, 2}}, Attributes().Set("pads", Ints{1, 2}).Set("value", 9.0));
  EXPECT_THAT(y[0], ElementsAre(9, 1, 2, 9, 9));
  y = Eval("ReduceMean", {Shape({2, 2})}, {{1, 2, 3, 4}}, Attributes().Set("axes", Ints{0}));
  EXPECT_THAT(y[0], ElementsAre(2, 3));
  y = Eval("SumTo", {Shape({2, 2})}, {{1, 2, 3, 4}}, Attributes().Set("shape", Ints{2, 1}));
  EXPECT_THAT(y[0], ElementsAre(3, 7));
  y = Eval("Add", {Shape({2, 1}), Shape({2})}, {{10, 20}, {1, 2}});
  EXPECT_THAT(y[0], ElementsAre(11, 12, 21, 22));
}

TEST(ReferenceOpsTest, LayerNormalization) {
  Attributes attributes = Attributes().Set("axis", int64_t{1}).Set("epsilon", 3.0);
  // Mean 3, variance 1, so the deviation is 2.
  auto y = Eval("LayerNormalization", {Shape({1, 2}), Shape({2}), Shape({2})},
                {{2, 4}, {10, 20}, {1, -1}}, attributes);
  EXPECT_THAT(y[0], Near({-4, 9}));
  EXPECT_THAT(y[1], Near({3}));
  EXPECT_THAT(y[2], Near({0.5}));
  // g = 10, 40; mean 25, mean of g xh = (-5 + 20) / 2; xh = -1/2, 1/2.
  auto d = Eval("LayerNormalizationGrad",
                {Shape({1, 2}), Shape({1, 2}), Shape({2}), Shape({1}), Shape({1})},
                {{1, 2}, {2, 4}, {10, 20}, {3}, {0.5}}, attributes);
  EXPECT_THAT(d[0], Near({0.5 * (10 - 25 + 3.75), 0.5 * (40 - 25 - 3.75)}));
  EXPECT_THAT(d[1], Near({-0.5, 1}));
  EXPECT_THAT(d[2], Near({1, 2}));
}

TEST(ReferenceOpsTest, Selections) {
  auto axis = [](int64_t value) { return Attributes().Set("axis", value); };
  auto y = Eval("Concat", {Shape({2, 1}), Shape({2, 2})}, {{1, 2}, {3, 4, 5, 6}}, axis(1));
  EXPECT_THAT(y[0], ElementsAre(1, 3, 4, 2, 5, 6));
  y = Eval("Split", {Shape({2, 3})}, {{1, 2, 3, 4, 5, 6}}, axis(1).Set("split", Ints{1, 2}));
  EXPECT_THAT(y[0], ElementsAre(1, 4));
  EXPECT_THAT(y[1], ElementsAre(2, 3, 5, 6));
  y = Eval("Gather", {Shape({2, 3}), Shape({2})}, {{1, 2, 3, 4, 5, 6}, {-1, 0}}, axis(1));
  EXPECT_THAT(y[0], ElementsAre(3, 1, 6, 4));
  y = Eval("GatherGrad", {Shape({3, 1}), Shape({3})}, {{1, 2, 4}, {1, 0, 1}},
           axis(0).Set("x_shape", Ints{2, 1}));
  EXPECT_THAT(y[0], ElementsAre(2, 5));
  y = Eval("Where", {Shape({2}), Shape(), Shape({2, 2})}, {{1, 0}, {9}, {1, 2, 3, 4}});
  EXPECT_THAT(y[0], ElementsAre(9, 2, 9, 4));
  y = Eval("WhereGrad", {Shape({2}), Shape({2, 2})}, {{1, 0}, {1, 2, 3, 4}},
           Attributes().Set("keep", int64_t{1}));
  EXPECT_THAT(y[0], ElementsAre(1, 0, 3, 0));
}

TEST(ReferenceOpsTest, Losses) {
  // Logits ln 1, ln 3: probabilities 1/4, 3/4.
  double ln3 = 1.0986122886681098;
  auto y = Eval("CrossEntropy", {Shape({2, 2}), Shape({2})}, {{0, ln3, 0, ln3}, {1, 0}});
  EXPECT_THAT(y[0], Near({(0.28768207245178085 + 1.3862943611198906) / 2}));
  EXPECT_THAT(y[1], Near({0.25, 0.75, 0.25, 0.75}));
  EXPECT_THAT(y[2], ElementsAre(1));
  y = Eval("Mse", {Shape({2}), Shape({2})}, {{1, 5}, {2, 2}});
  EXPECT_THAT(y[0], ElementsAre(5));
}

TEST(ReferenceOpsTest, Activations) {
  auto y = Eval("HardSwish", {Shape({4})}, {{-4, -1.5, 1.5, 4}});
  EXPECT_THAT(y[0], Near({0, -0.375, 1.125, 4}));
  y = Eval("HardSigmoid", {Shape({3})}, {{-4, 0.5, 4}},
           Attributes().Set("alpha", 0.5).Set("beta", 0.25));
  EXPECT_THAT(y[0], Near({0, 0.5, 1}));
  y = Eval("Pow", {Shape({2})}, {{-2, 3}}, Attributes().Set("exponent", 3.0));
  EXPECT_THAT(y[0], Near({-8, 27}));
  // Values of erf and of the normal distribution from tables.
  y = Eval("Erf", {Shape({2})}, {{0.5, -1}});
  EXPECT_THAT(y[0], Pointwise(DoubleNear(1e-9), {0.5204998778, -0.8427007929}));
  y = Eval("Gelu", {Shape({2})}, {{1, -2}});
  EXPECT_THAT(y[0], Pointwise(DoubleNear(1e-9), {0.8413447461, -2 * 0.0227501319}));
  y = Eval("Clip", {Shape({3})}, {{-4, 0.5, 4}}, Attributes().Set("min", -1.0).Set("max", 2.0));
  EXPECT_THAT(y[0], ElementsAre(-1, 0.5, 2));
}

}  // namespace
}  // namespace pipedream
