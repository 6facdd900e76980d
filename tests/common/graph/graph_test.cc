#include "common/graph/graph.h"

#include "tests/common/graph/test_graphs.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GraphTest, ANodeGetsItsOutputsFromInference) {
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId w = builder.AddParameter("w", Tensor::FromVector<float>(Shape({3, 1}), {1, 2, 3}));
  ASSERT_OK_AND_ASSIGN(std::vector<ValueId> y,
                       builder.AddNode("fc", "Gemm", {x, w}, GemmAttributes(), {"y"}));
  builder.AddOutput(y[0]);
  Graph graph = MustBuild(std::move(builder));
  const Value& value = graph.value(y[0]);
  EXPECT_EQ(value.name, "y");
  EXPECT_EQ(value.shape, Shape({2, 1}));
  EXPECT_EQ(value.kind, ValueKind::kComputed);
  EXPECT_EQ(value.producer, NodeId(0));
  EXPECT_EQ(graph.value(w).data.as<float>()[2], 3);
  EXPECT_EQ(graph.value(w).bytes(), 12);
  EXPECT_THAT(graph.inputs(), ElementsAre(x));
  EXPECT_THAT(graph.outputs(), ElementsAre(y[0]));
}

TEST(GraphTest, PrintsALinePerNode) {
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({8, 3}));
  ASSERT_OK(builder.AddNode("s", "Softmax", {x}, Attributes().Set("axis", int64_t{1}), {"p"}));
  EXPECT_EQ(builder.graph().ToString(), "0 Softmax s (x[8, 3]) -> p[8, 3] {axis=1}\n");
}

TEST(GraphTest, ConsumersAreListedOnceEachAndInOrder) {
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2}));
  AddOp(builder, "twice", "Mul", {x, x});
  AddOp(builder, "once", "Relu", {x});
  EXPECT_THAT(builder.graph().consumers(x), ElementsAre(NodeId(0), NodeId(1)));
}

TEST(GraphTest, TakenNamesGetASuffix) {
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2}));
  ASSERT_OK_AND_ASSIGN(auto a, builder.AddNode("r", "Relu", {x}, {}, {"x"}));
  ASSERT_OK_AND_ASSIGN(auto b, builder.AddNode("r", "Relu", {x}, {}));
  const Graph& graph = builder.graph();
  EXPECT_EQ(graph.value(a[0]).name, "x_1");
  EXPECT_EQ(graph.node(NodeId(1)).name, "r_1");
  EXPECT_EQ(graph.value(b[0]).name, "r_1:0");
  EXPECT_EQ(graph.FindValue("x_1"), a[0]);
  EXPECT_EQ(graph.FindValue("nothing"), kNoValue);
}

TEST(GraphTest, ABuilderOnACopyKeepsIdsAndNames) {
  GraphBuilder first;
  ValueId x = first.AddInput("x", DataType::kFloat32, Shape({2}));
  ValueId y = AddOp(first, "r", "Relu", {x});
  Graph graph = MustBuild(std::move(first));
  GraphBuilder second(graph);
  ValueId z = AddOp(second, "r", "Tanh", {y});
  EXPECT_EQ(second.graph().node(NodeId(1)).name, "r_1");
  EXPECT_EQ(second.graph().value(z).producer, NodeId(1));
  EXPECT_THAT(second.graph().consumers(y), ElementsAre(NodeId(1)));
  EXPECT_THAT(graph.consumers(y), IsEmpty());
}

TEST(GraphTest, ErrorsNameTheNodeAndItsOperator) {
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId z = builder.AddInput("z", DataType::kFloat32, Shape({2, 4}));
  EXPECT_THAT(builder.AddNode("sum", "Add", {x, z}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("node 'sum' (Add): shapes [2, 3] and [2, 4] do not broadcast")));
  EXPECT_THAT(builder.AddNode("odd", "Frobnicate", {x}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("node 'odd': unknown operator 'Frobnicate'")));
  EXPECT_THAT(builder.AddNode("late", "Relu", {ValueId(99)}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not exist")));
  EXPECT_EQ(builder.graph().node_count(), 0);
}

TEST(GraphTest, RefusesAnOutputTooLargeToCount) {
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({1, 1}));
  int64_t huge = int64_t{1} << 40;
  EXPECT_THAT(builder.AddNode("e", "Expand", {x}, Attributes().Set("shape", Ints{huge, huge})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too large")));
}

TEST(GraphTest, BuildRefusesAnOutputThatDoesNotExist) {
  GraphBuilder builder;
  builder.AddOutput(ValueId(3));
  EXPECT_THAT(std::move(builder).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("output 3")));
}

}  // namespace
}  // namespace pipedream
