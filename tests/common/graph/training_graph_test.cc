#include "common/graph/training_graph.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/common/graph/test_graphs.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainingGraph MustTrain(const Graph& graph, const std::vector<LossTerm>& loss) {
  auto training = MakeTrainingGraph(graph, loss);
  EXPECT_OK(training);
  return *std::move(training);
}

int Count(const Graph& graph, std::string_view op) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                        [&](const Node& n) { return n.op == op; }));
}

// The gradient nodes of forward node `name`, as operators.
std::vector<std::string> GradientOps(const TrainingGraph& training, std::string_view name) {
  std::vector<std::string> ops;
  for (int i = training.forward_nodes; i < training.graph.node_count(); ++i) {
    if (training.graph.node(training.origin[i]).name == name) {
      ops.push_back(training.graph.node(NodeId(i)).op);
    }
  }
  return ops;
}

const Node& ProducerOf(const TrainingGraph& training, ValueId id) {
  return training.graph.node(training.graph.value(id).producer);
}

std::string OriginOf(const TrainingGraph& training, ValueId id) {
  NodeId producer = training.graph.value(id).producer;
  return training.graph.node(training.origin[producer.value()]).name;
}

Pass PassOf(const TrainingGraph& training, ValueId id) {
  return training.pass[training.graph.value(id).producer.value()];
}

TEST(TrainingGraphTest, HoldsForwardLossAndGradients) {
  Graph forward = ResidualNet();
  TrainingGraph training = MustTrain(forward, {CrossEntropyOn("logits:0", "y")});
  EXPECT_EQ(training.forward_nodes, forward.node_count() + 1);
  for (int i = 0; i < forward.node_count(); ++i) {
    EXPECT_EQ(training.graph.node(NodeId(i)).name, forward.node(NodeId(i)).name);
  }
  for (int i = 0; i < training.graph.node_count(); ++i) {
    bool is_forward = i < training.forward_nodes;
    EXPECT_EQ(training.pass[i] == Pass::kForward, is_forward);
    EXPECT_EQ(training.origin[i] == NodeId(i), is_forward);
    EXPECT_LT(training.origin[i].value(), training.forward_nodes);
  }
  EXPECT_EQ(training.graph.value(training.loss).shape, Shape());
  EXPECT_EQ(training.graph.value(training.correct).dtype, DataType::kInt64);
  EXPECT_THAT(training.state_updates, ElementsAre(FindNode(forward, "update")));
  std::vector<std::string> trained;
  for (const ParameterGradient& g : training.gradients) {
    trained.push_back(training.graph.value(g.parameter).name);
    EXPECT_EQ(training.graph.value(g.gradient).shape, training.graph.value(g.parameter).shape);
  }
  EXPECT_THAT(trained, ElementsAre("w1", "scale", "shift", "w2", "b2", "w3", "w4", "b4"));
}

TEST(TrainingGraphTest, AddsTheLabelAsAnInput) {
  TrainingGraph training = MustTrain(ResidualNet(), {CrossEntropyOn("logits:0", "y")});
  ValueId label = training.graph.FindValue("y");
  ASSERT_NE(label, kNoValue);
  EXPECT_EQ(training.graph.value(label).kind, ValueKind::kInput);
  EXPECT_EQ(training.graph.value(label).dtype, DataType::kInt64);
  EXPECT_EQ(training.graph.value(label).shape, Shape({4}));
  EXPECT_EQ(training.graph.inputs().back(), label);
}

TEST(TrainingGraphTest, TheFirstLayerGetsNoInputGradient) {
  TrainingGraph training = MustTrain(ResidualNet(), {CrossEntropyOn("logits:0", "y")});
  EXPECT_THAT(GradientOps(training, "conv1"), ElementsAre("ConvGradWeight"));
  EXPECT_THAT(GradientOps(training, "conv2"),
              ElementsAre("ConvGradWeight", "ConvGradInput", "Add"));
}

TEST(TrainingGraphTest, GradientNodesAreNamedAfterTheirForwardNode) {
  TrainingGraph training = MustTrain(ResidualNet(), {CrossEntropyOn("logits:0", "y")});
  std::set<std::string> names;
  for (int i = 0; i < training.graph.node_count(); ++i) {
    const std::string& name = training.graph.node(NodeId(i)).name;
    EXPECT_TRUE(names.insert(name).second) << name;
    if (i < training.forward_nodes) continue;
    EXPECT_EQ(name.rfind(training.graph.node(training.origin[i]).name + "/grad", 0), 0u) << name;
  }
}

TEST(TrainingGraphTest, SumsFromTheLastConsumerToTheFirst) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({4}), random));
  ValueId v = AddOp(builder, "v", "Tanh", {w});
  ValueId a = AddOp(builder, "a", "Relu", {v});
  ValueId b = AddOp(builder, "b", "Sigmoid", {v});
  ValueId c = AddOp(builder, "c", "HardSwish", {v});
  ValueId ab = AddOp(builder, "ab", "Mul", {a, b});
  builder.AddOutput(AddOp(builder, "out", "Mul", {ab, c}));
  TrainingGraph training = MustTrain(MustBuild(std::move(builder)), {MseOn("out:0", "t")});

  const Node& tanh_grad = ProducerOf(training, GradientOf(training, "w"));
  ASSERT_EQ(tanh_grad.op, "TanhGrad");
  const Node& outer = ProducerOf(training, tanh_grad.inputs[0]);
  EXPECT_EQ(outer.op, "Add");
  EXPECT_EQ(OriginOf(training, tanh_grad.inputs[0]), "a");
  EXPECT_EQ(ProducerOf(training, outer.inputs[1]).op, "ReluGrad");
  const Node& inner = ProducerOf(training, outer.inputs[0]);
  EXPECT_EQ(inner.op, "Add");
  EXPECT_EQ(OriginOf(training, outer.inputs[0]), "b");
  EXPECT_EQ(ProducerOf(training, inner.inputs[0]).op, "HardSwishGrad");
  EXPECT_EQ(ProducerOf(training, inner.inputs[1]).op, "SigmoidGrad");
}

TEST(TrainingGraphTest, AValueReadTwiceByOneNodeGetsBothContributions) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({4}), random));
  builder.AddOutput(AddOp(builder, "square", "Mul", {w, w}));
  TrainingGraph training = MustTrain(MustBuild(std::move(builder)), {MseOn("square:0", "t")});
  EXPECT_THAT(GradientOps(training, "square"), ElementsAre("Mul", "Mul", "Add"));
}

TEST(TrainingGraphTest, TheSeedIsAConstantOne) {
  TrainingGraph training = MustTrain(ResidualNet(), {CrossEntropyOn("logits:0", "y")});
  EXPECT_EQ(Count(training.graph, "Scale"), 0);
  NodeId grad(training.forward_nodes);
  ASSERT_EQ(training.graph.node(grad).op, "CrossEntropyGrad");
  const Value& seed = training.graph.value(training.graph.node(grad).inputs[2]);
  EXPECT_EQ(seed.kind, ValueKind::kConstant);
  EXPECT_EQ(seed.shape, Shape());
  EXPECT_EQ(seed.data.as<float>()[0], 1.0f);
}

TEST(TrainingGraphTest, TermsAreScaledAndAdded) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({4, 3}), random));
  builder.AddOutput(AddOp(builder, "a", "Tanh", {w}));
  builder.AddOutput(AddOp(builder, "b", "Relu", {w}));
  TrainingGraph training =
      MustTrain(MustBuild(std::move(builder)),
                {MseOn("a:0", "ta"), CrossEntropyOn("b:0", "y", 0.5), CrossEntropyOn("a:0", "y")});
  EXPECT_EQ(training.forward_nodes, 2 + 3 + 1 + 2);
  EXPECT_EQ(ProducerOf(training, training.loss).op, "Add");
  EXPECT_EQ(ProducerOf(training, training.correct).name, "b:0/cross_entropy");
  EXPECT_EQ(Count(training.graph, "Scale"), 2);   // the weight, and its gradient
  EXPECT_EQ(training.graph.inputs().size(), 2u);  // both cross-entropies share their label
}

TEST(TrainingGraphTest, AScalarOutputIsTheLossItself) {
  std::mt19937 random(1);
  for (bool keep : {false, true}) {
    GraphBuilder builder;
    ValueId w = builder.AddParameter("w", RandomTensor(Shape({4}), random));
    builder.AddOutput(AddOp(builder, "sum", "ReduceSum", {w},
                            Attributes().Set("axes", Ints{0}).Set("keepdims", int64_t{keep})));
    TrainingGraph training = MustTrain(MustBuild(std::move(builder)), {OutputAsLoss("sum:0")});
    EXPECT_EQ(training.forward_nodes, keep ? 2 : 1);
    EXPECT_EQ(training.graph.value(training.loss).shape, Shape());
    EXPECT_EQ(training.correct, kNoValue);
  }
}

TEST(TrainingGraphTest, WeightGradientsLeadToParametersOnly) {
  TrainingGraph training = MustTrain(ResidualNet(), {CrossEntropyOn("logits:0", "y")});
  for (std::string name : {"w1", "w2", "b2", "w3", "w4", "b4"}) {
    EXPECT_EQ(PassOf(training, GradientOf(training, name)), Pass::kWeightGradient) << name;
  }
  // One node makes the gradients of x, scale and shift.
  EXPECT_EQ(PassOf(training, GradientOf(training, "scale")), Pass::kInputGradient);
  for (int i = training.forward_nodes; i < training.graph.node_count(); ++i) {
    const std::string& op = training.graph.node(NodeId(i)).op;
    if (op == "ConvGradInput" || op == "ReluGrad" || op == "MaxPoolGrad" || op == "Add" ||
        op == "CrossEntropyGrad" || op == "Reshape") {
      EXPECT_EQ(training.pass[i], Pass::kInputGradient) << op;
    }
  }
}

TEST(TrainingGraphTest, FunctionsOfParametersAloneCountAsWeightSide) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({4, 3}), random));
  ValueId wt = AddOp(builder, "t", "Transpose", {w}, Attributes().Set("perm", Ints{1, 0}));
  builder.AddOutput(AddOp(builder, "y", "MatMul", {x, wt}));
  TrainingGraph training = MustTrain(MustBuild(std::move(builder)), {MseOn("y:0", "t")});
  ValueId gradient = GradientOf(training, "w");
  EXPECT_EQ(ProducerOf(training, gradient).op, "Transpose");
  EXPECT_EQ(PassOf(training, gradient), Pass::kWeightGradient);
  EXPECT_THAT(GradientOps(training, "y"), ElementsAre("MatMul"));
  EXPECT_EQ(PassOf(training, ProducerOf(training, gradient).inputs[0]), Pass::kWeightGradient);
}

TEST(TrainingGraphTest, ABatchNormalizationOnAnInputHasWeightGradientsOnly) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({5, 3}));
  ValueId scale = builder.AddParameter("scale", RandomTensor(Shape({3}), random));
  ValueId shift = builder.AddParameter("shift", RandomTensor(Shape({3}), random));
  builder.AddOutput(AddOp(builder, "bn", "BatchNormalization", {x, scale, shift},
                          Attributes().Set("epsilon", 1e-5)));
  TrainingGraph training = MustTrain(MustBuild(std::move(builder)), {MseOn("bn:0", "t")});
  EXPECT_EQ(PassOf(training, GradientOf(training, "scale")), Pass::kWeightGradient);
}

TEST(TrainingGraphTest, APassedOnGradientIsCopiedWhereTheParameterIsRead) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId p = builder.AddParameter("p", RandomTensor(Shape({2, 3}), random));
  ValueId q = builder.AddParameter("q", RandomTensor(Shape({2, 3}), random));
  ValueId xp = AddOp(builder, "xp", "Add", {x, p});
  ValueId sum = AddOp(builder, "sum", "Add", {xp, q});
  builder.AddOutput(AddOp(builder, "y", "Tanh", {sum}));
  TrainingGraph training = MustTrain(MustBuild(std::move(builder)), {MseOn("y:0", "t")});
  EXPECT_NE(GradientOf(training, "p"), GradientOf(training, "q"));
  EXPECT_EQ(OriginOf(training, GradientOf(training, "p")), "xp");
  EXPECT_EQ(OriginOf(training, GradientOf(training, "q")), "sum");
  EXPECT_EQ(PassOf(training, GradientOf(training, "p")), Pass::kWeightGradient);
}

TEST(TrainingGraphTest, FrozenAndUnusedTensorsGetNoGradient) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId frozen = builder.AddConstant("frozen", RandomTensor(Shape({3, 4}), random));
  builder.AddParameter("unused", RandomTensor(Shape({3}), random));
  ValueId dead = builder.AddParameter("dead", RandomTensor(Shape({4}), random));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({4, 2}), random));
  ValueId h = AddOp(builder, "h", "MatMul", {x, frozen});
  AddOp(builder, "deadend", "Add", {h, dead});
  builder.AddOutput(AddOp(builder, "y", "MatMul", {h, w}));
  TrainingGraph training = MustTrain(MustBuild(std::move(builder)), {MseOn("y:0", "t")});
  ASSERT_EQ(training.gradients.size(), 1u);
  EXPECT_EQ(training.gradients[0].parameter, w);
  EXPECT_THAT(GradientOps(training, "h"), IsEmpty());
  EXPECT_THAT(GradientOps(training, "deadend"), IsEmpty());
}

TEST(TrainingGraphTest, ATiedParameterGetsTheSumOfItsUses) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId a = AddOp(builder, "a", "MatMul", {x, w});
  builder.AddOutput(AddOp(builder, "b", "MatMul", {a, w}));
  TrainingGraph training = MustTrain(MustBuild(std::move(builder)), {MseOn("b:0", "t")});
  ASSERT_EQ(training.gradients.size(), 1u);
  const Node& sum = ProducerOf(training, training.gradients[0].gradient);
  EXPECT_EQ(sum.op, "Add");
  EXPECT_EQ(OriginOf(training, sum.inputs[0]), "b");
  EXPECT_EQ(OriginOf(training, sum.inputs[1]), "a");
}

TEST(TrainingGraphTest, OptionalOutputsStayOnlyWhereTheyAreRead) {
  Graph forward = ResidualNet();
  TrainingGraph training = MustTrain(forward, {CrossEntropyOn("logits:0", "y")});
  auto optional = [](const Graph& graph, NodeId node) { return graph.node(node).outputs[1]; };
  NodeId pool = FindNode(forward, "pool");
  EXPECT_NE(optional(training.graph, pool), kNoValue);
  ASSERT_OK_AND_ASSIGN(TrainingGraph evaluation,
                       MakeEvaluationGraph(forward, {CrossEntropyOn("logits:0", "y")}));
  EXPECT_EQ(optional(evaluation.graph, pool), kNoValue);
  auto bias_gradient = [&](std::string_view weight) {
    return ProducerOf(training, GradientOf(training, weight)).outputs[1];
  };
  EXPECT_EQ(bias_gradient("w2"), GradientOf(training, "b2"));
  EXPECT_EQ(bias_gradient("w3"), kNoValue);
}

TEST(EvaluationGraphTest, HasTheForwardNodesOfTheTrainingGraph) {
  Graph forward = ResidualNet();
  std::vector<LossTerm> loss = {CrossEntropyOn("logits:0", "y", 2)};
  TrainingGraph training = MustTrain(forward, loss);
  ASSERT_OK_AND_ASSIGN(TrainingGraph evaluation, MakeEvaluationGraph(forward, loss));
  EXPECT_EQ(evaluation.graph.node_count(), evaluation.forward_nodes);
  ASSERT_EQ(evaluation.forward_nodes, training.forward_nodes);
  for (int i = 0; i < evaluation.forward_nodes; ++i) {
    EXPECT_EQ(evaluation.graph.node(NodeId(i)).name, training.graph.node(NodeId(i)).name);
    EXPECT_EQ(evaluation.pass[i], Pass::kForward);
  }
  EXPECT_THAT(evaluation.gradients, IsEmpty());
  EXPECT_NE(evaluation.loss, kNoValue);
  EXPECT_NE(evaluation.correct, kNoValue);
}

TEST(TrainingGraphTest, SaysWhatIsWrongWithTheLoss) {
  Graph forward = ResidualNet();
  struct {
    std::vector<LossTerm> loss;
    std::string error;
  } cases[] = {
      {{}, "no loss is given"},
      {{CrossEntropyOn("logit", "y")},
       "output 'logit', which the model does not have; it has logits:0"},
      {{CrossEntropyOn("logits:0", "")}, "names no label"},
      {{CrossEntropyOn("logits:0", "w1")}, "label 'w1' of the loss on 'logits:0' is a tensor"},
      {{CrossEntropyOn("logits:0", "x")},
       "label 'x' is float32[4, 2, 6, 6], but the loss on output 'logits:0' needs int64[4]"},
      {{MseOn("logits:0", "x")}, "needs float32[4, 3]"},
      {{OutputAsLoss("logits:0")}, "which is [4, 3], not a scalar"},
      {{CrossEntropyOn("logits:0", "y", NAN)}, "has weight nan"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(MakeTrainingGraph(forward, c.loss),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
}

TEST(TrainingGraphTest, RefusesAModelWithoutParameters) {
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  builder.AddOutput(AddOp(builder, "y", "Relu", {x}));
  Graph none = MustBuild(builder);
  EXPECT_THAT(MakeTrainingGraph(none, {MseOn("y:0", "t")}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no parameter to train")));
  builder.AddParameter("unused", Tensor::FromVector<float>(Shape({1}), {1}));
  EXPECT_THAT(MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("y:0", "t")}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("from no parameter")));
}

TEST(TrainingGraphTest, NamesTheOperatorThatStopsTheGradient) {
  std::mt19937 random(1);
  GraphBuilder builder;
  auto parameter = [&](std::string name) {
    return builder.AddParameter(std::move(name), RandomTensor(Shape({3}), random));
  };
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  builder.AddOutput(AddOp(builder, "bn", "BatchNormalizationInference",
                          {x, parameter("s"), parameter("b"), parameter("m"), parameter("v")},
                          Attributes().Set("epsilon", 1e-5)));
  EXPECT_THAT(MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("bn:0", "t")}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("node 'bn' (BatchNormalizationInference) has no gradient")));
}

}  // namespace
}  // namespace pipedream
