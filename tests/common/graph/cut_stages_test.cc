#include <map>
#include <random>
#include <utility>

#include "common/graph/training_graph.h"
#include "tests/common/graph/staged_run.h"

namespace pipedream {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainingGraph Residual() {
  auto training = MakeTrainingGraph(ResidualNet(), {CrossEntropyOn("logits:0", "y")});
  EXPECT_OK(training);
  return *std::move(training);
}

StageMessage To(int stage, std::vector<ValueId> values) { return {stage, std::move(values)}; }
StageMessage From(int stage, std::vector<ValueId> values) { return {stage, std::move(values)}; }

// x -> a (0) -> b (1) -> c (2) -> d (2): b reads a; c reads b and a; d = c * a and mask. a has
// three readers on two other stages.
struct SkipNet {
  TrainingGraph training;
  ValueId a, b, mask;
};

SkipNet MakeSkipNet() {
  std::mt19937 random(3);
  GraphBuilder builder;
  auto parameter = [&](std::string name) {
    return builder.AddParameter(std::move(name), RandomTensor(Shape({3, 3}), random));
  };
  SkipNet net;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId u = builder.AddInput("u", DataType::kFloat32, Shape({2, 3}));
  net.mask = AddOp(builder, "mask", "Relu", {u});
  net.a = AddOp(builder, "a", "MatMul", {x, parameter("wa")});
  net.b = AddOp(builder, "b", "MatMul", {net.a, parameter("wb")});
  ValueId masked = AddOp(builder, "masked", "Mul", {net.b, net.mask});
  ValueId c = AddOp(builder, "c", "Mul", {masked, net.a});
  ValueId d = AddOp(builder, "d", "Mul", {c, net.a});
  ValueId e = AddOp(builder, "e", "Mul", {d, net.mask});
  builder.AddOutput(e);
  auto training = MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("e:0", "t")});
  EXPECT_OK(training);
  net.training = *std::move(training);
  return net;
}

TEST(CutStagesTest, ASkipConnectionGoesStraightBothWays) {
  TrainingGraph training = Residual();
  const Graph& graph = training.graph;
  // relu1 is read by conv2 on stage 1 and by add on stage 2.
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(training, SplitAt(training, {"conv2", "conv3"}), 3));
  const ValueId relu1 = graph.FindValue("relu1:0");
  const ValueId relu2 = graph.FindValue("relu2:0");
  EXPECT_THAT(stages[0].sent, ElementsAre(To(1, {relu1}), To(2, {relu1})));
  EXPECT_THAT(stages[1].sent, ElementsAre(To(2, {relu2})));
  EXPECT_THAT(stages[2].received, ElementsAre(From(0, {relu1}), From(1, {relu2})));
  EXPECT_THAT(stages[0].received, IsEmpty());
  EXPECT_THAT(stages[2].sent, IsEmpty());
  // Both parts of relu1's gradient go to stage 0, which adds them.
  ASSERT_EQ(stages[0].gradients_received.size(), 2u);
  EXPECT_EQ(stages[0].gradients_received[0], From(1, stages[1].gradients_sent[0].values));
  EXPECT_EQ(stages[0].gradients_received[1], From(2, stages[2].gradients_sent[0].values));
  const Node& sum = graph.node(stages[0].input_gradient.front());
  EXPECT_EQ(sum.op, "Add");
  EXPECT_THAT(sum.inputs, ElementsAre(stages[2].gradients_sent[0].values[0],
                                      stages[1].gradients_sent[0].values[0]));
  ASSERT_EQ(stages[2].gradients_sent.size(), 2u);
  EXPECT_THAT(stages[1].gradients_received,
              ElementsAre(From(2, stages[2].gradients_sent[1].values)));
  EXPECT_THAT(stages[2].gradients_received, IsEmpty());
  EXPECT_THAT(stages[0].gradients_sent, IsEmpty());
  EXPECT_THAT(EdgesOf(stages),
              ElementsAre(StageEdge{0, 1, false}, StageEdge{0, 2, false}, StageEdge{1, 0, true},
                          StageEdge{1, 2, false}, StageEdge{2, 0, true}, StageEdge{2, 1, true}));
}

TEST(CutStagesTest, PartsOfAGradientFromOneStageAreAddedThere) {
  SkipNet net = MakeSkipNet();
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(net.training, SplitAt(net.training, {"b", "c"}), 3));
  // c and d on stage 2 read a: one sum comes from there, and b's part from stage 1.
  const Graph& graph = net.training.graph;
  ASSERT_EQ(stages[0].gradients_received.size(), 2u);
  for (const StageMessage& message : stages[0].gradients_received)
    EXPECT_EQ(message.values.size(), 1u) << message.stage;
  const ValueId late = stages[0].gradients_received[1].values[0];
  EXPECT_EQ(graph.node(graph.value(late).producer).op, "Add");
  EXPECT_THAT(stages[2].received, ElementsAre(From(0, {net.mask, net.a}), testing::_));
}

TEST(CutStagesTest, AValueWithoutGradientIsSentOneWay) {
  SkipNet net = MakeSkipNet();
  // The mask is made on stage 0 and read on stages 1 and 2; only e is on stage 2.
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(net.training, SplitAt(net.training, {"b", "e"}), 3));
  EXPECT_THAT(stages[0].sent, ElementsAre(To(1, {net.mask, net.a}), To(2, {net.mask})));
  EXPECT_THAT(EdgesOf(stages),
              ElementsAre(StageEdge{0, 1, false}, StageEdge{0, 2, false}, StageEdge{1, 0, true},
                          StageEdge{1, 2, false}, StageEdge{2, 1, true}));
}

// A gradient that leads to nothing but a parameter is sent all the same where the parameter is on
// an earlier stage: it is then no weight gradient of the stage that makes it.
TEST(CutStagesTest, WhatIsSentIsAmongTheInputGradients) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId v = AddOp(builder, "v", "Tanh", {w});
  ValueId y = AddOp(builder, "y", "MatMul", {x, v});
  builder.AddOutput(y);
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("y:0", "t")}));
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> one, CutStages(training, {0, 0, 0}, 1));
  EXPECT_EQ(one[0].weight_gradient.size(), 2u);  // of y's weight, and of tanh
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> two, CutStages(training, {0, 1, 1}, 2));
  EXPECT_THAT(two[0].sent, ElementsAre(To(1, {v})));
  EXPECT_THAT(two[1].weight_gradient, IsEmpty());
  EXPECT_EQ(two[1].input_gradient.size(), 2u);
  EXPECT_EQ(two[0].weight_gradient.size(), 1u);
}

TEST(CutStagesTest, EachStageListsWhatItHolds) {
  TrainingGraph training = Residual();
  const Graph& graph = training.graph;
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(training, SplitAt(training, {"conv2", "pool"}), 3));
  EXPECT_THAT(Names(graph, stages[0].inputs), ElementsAre("x"));
  EXPECT_THAT(stages[1].inputs, IsEmpty());
  EXPECT_THAT(Names(graph, stages[2].inputs), ElementsAre("y"));
  EXPECT_THAT(Names(graph, stages[0].parameters), ElementsAre("w1", "scale", "shift"));
  EXPECT_THAT(Names(graph, stages[1].parameters), ElementsAre("w2", "b2", "w3"));
  EXPECT_THAT(Names(graph, stages[2].parameters), ElementsAre("w4", "b4"));
  EXPECT_THAT(Names(graph, stages[0].states), ElementsAre("running_mean", "running_variance"));
  EXPECT_THAT(Names(graph, stages[0].saved),
              ElementsAre("x", "conv1:0", "bn:1", "bn:2", "relu1:0"));
  EXPECT_THAT(Names(graph, stages[1].saved), ElementsAre("relu1:0", "relu2:0"));
  EXPECT_THAT(Names(graph, stages[2].saved),
              ElementsAre("pool:1", "flat:0", "y", "logits:0/cross_entropy:1"));
}

TEST(CutStagesTest, OneStageTransfersNothing) {
  TrainingGraph training = Residual();
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(training, SplitAt(training, {}), 1));
  EXPECT_EQ(static_cast<int>(stages[0].forward.size()), training.forward_nodes);
  EXPECT_EQ(
      stages[0].forward.size() + stages[0].input_gradient.size() + stages[0].weight_gradient.size(),
      training.graph.nodes().size());
  EXPECT_THAT(stages[0].sent, IsEmpty());
  EXPECT_THAT(stages[0].gradients_sent, IsEmpty());
}

TEST(CutStagesTest, AnInputIsListedWhereverItIsReadAndNeverTransferred) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId v = builder.AddParameter("v", RandomTensor(Shape({3, 3}), random));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId a = AddOp(builder, "a", "MatMul", {x, v});
  ValueId b = AddOp(builder, "b", "MatMul", {a, w});
  builder.AddOutput(AddOp(builder, "c", "Add", {b, x}));
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("c:0", "t")}));
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(training, SplitAt(training, {"b"}), 2));
  EXPECT_THAT(Names(training.graph, stages[0].inputs), ElementsAre("x"));
  EXPECT_THAT(Names(training.graph, stages[1].inputs), ElementsAre("x", "t"));
  EXPECT_THAT(stages[0].sent, ElementsAre(To(1, {a})));
}

// Or evaluation, which reads them where it normalises, would find them as they began.
TEST(CutStagesTest, RunningStatisticsAreUpdatedWhereTheyAreMade) {
  TrainingGraph training = Residual();
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(training, SplitAt(training, {"update"}), 2));
  EXPECT_THAT(Names(training.graph, stages[0].states),
              ElementsAre("running_mean", "running_variance"));
  EXPECT_THAT(stages[1].states, IsEmpty());
  EXPECT_THAT(stages[0].sent, ElementsAre(To(1, {training.graph.FindValue("bn:0")})));
  EXPECT_THAT(CutStages(training, SplitAt(training, {"update", "relu1"}), 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stage 1 owns no node")));
}

TEST(CutStagesTest, AParameterReadInTwoStagesIsRefused) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId a = AddOp(builder, "a", "MatMul", {x, w});
  ValueId r = AddOp(builder, "r", "Relu", {a});
  builder.AddOutput(AddOp(builder, "b", "MatMul", {r, w}));
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("b:0", "t")}));
  EXPECT_THAT(CutStages(training, SplitAt(training, {"r"}), 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parameter 'w' is read in two stages: by node 'a' on stage 0 and "
                                 "by node 'b' on stage 1")));
  EXPECT_OK(CutStages(training, SplitAt(training, {"b:0/mse"}), 2));
}

TEST(CutStagesTest, RefusesStagesThatDoNotFit) {
  TrainingGraph training = Residual();
  std::vector<int> good = SplitAt(training, {"conv2"});
  std::vector<int> backward = good;
  backward[FindNode(training.graph, "conv1").value()] = 1;
  std::vector<int> outside = good;
  outside[0] = -1;
  std::vector<int> short_list = good;
  short_list.pop_back();
  struct {
    std::vector<int> stage_of;
    int stages;
    std::string error;
  } cases[] = {
      {backward, 2,
       "'conv1:0' runs backward, from node 'conv1' on stage 1 to node 'bn' on stage 0"},
      {good, 3, "stage 2 owns no node"},
      {good, 1, "is put on stage 1, there are 1 stages"},
      {outside, 2, "node 'conv1' is put on stage -1"},
      {short_list, 2, "stages are given for 11 nodes, the graph has 12 forward nodes"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(CutStages(training, c.stage_of, c.stages),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
}

TEST(CutStagesTest, CutsEvaluationGraphsToo) {
  ASSERT_OK_AND_ASSIGN(TrainingGraph evaluation,
                       MakeEvaluationGraph(ResidualNet(), {CrossEntropyOn("logits:0", "y")}));
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(evaluation, SplitAt(evaluation, {"conv3"}), 2));
  ASSERT_EQ(stages[1].received.size(), 1u);
  EXPECT_THAT(Names(evaluation.graph, stages[1].received[0].values),
              ElementsAre("relu1:0", "relu2:0"));
  EXPECT_THAT(stages[0].gradients_received, IsEmpty());
  EXPECT_THAT(stages[1].saved, IsEmpty());
}

void ExpectMatchingEnds(const std::vector<StageGraph>& cut) {
  for (size_t s = 0; s < cut.size(); ++s) {
    const int here = static_cast<int>(s);
    for (const StageMessage& m : cut[s].sent)
      EXPECT_THAT(cut[m.stage].received, Contains(From(here, m.values)));
    for (const StageMessage& m : cut[s].gradients_sent)
      EXPECT_THAT(cut[m.stage].gradients_received, Contains(From(here, m.values)));
  }
}

// Runs random cuts of `training` on `given` and on nothing else.
void ExpectSameGradients(const TrainingGraph& training,
                         const std::map<std::string, ReferenceTensor>& given, uint32_t seed) {
  ASSERT_OK_AND_ASSIGN(auto whole, RunReferenceGraph(training.graph, given));
  std::mt19937 random(seed);
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const int stages = 1 + static_cast<int>(random() % 6);
    ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> cut,
                         CutStages(training, RandomStages(training, stages, random), stages));
    ExpectMatchingEnds(cut);
    std::vector<StagedRun::Store> gradients =
        StagedRun(training, cut, GivenOf(training, whole)).Run();
    if (testing::Test::HasFatalFailure()) return;
    size_t count = 0;
    for (const StagedRun::Store& of_stage : gradients) {
      count += of_stage.size();
      for (const auto& [id, gradient] : of_stage)
        EXPECT_EQ(gradient, whole[id.value()]) << training.graph.value(id).name;
    }
    EXPECT_EQ(count, training.gradients.size());
  }
}

TEST(CutStagesTest, AnyCutGivesTheSameGradientsFromItsListsAlone) {
  std::mt19937 random(4711);
  ExpectSameGradients(Residual(),
                      {{"x", RandomReference(4 * 2 * 6 * 6, random)}, {"y", {0, 2, 1, 1}}}, 4711);
}

TEST(CutStagesTest, AnyCutOfManySkipsGivesTheSameGradients) {
  std::mt19937 random(815);
  ExpectSameGradients(MakeSkipNet().training,
                      {{"x", RandomReference(6, random)},
                       {"u", RandomReference(6, random)},
                       {"t", RandomReference(6, random)}},
                      815);
}

}  // namespace
}  // namespace pipedream
