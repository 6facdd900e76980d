#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "common/graph/training_graph.h"
#include "tests/common/graph/test_graphs.h"
#include "tests/support/reference_ops.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainingGraph Residual() {
  auto training = MakeTrainingGraph(ResidualNet(), {CrossEntropyOn("logits:0", "y")});
  EXPECT_OK(training);
  return *std::move(training);
}

std::vector<std::string> Names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (ValueId id : ids) names.push_back(graph.value(id).name);
  return names;
}

// Stage of every forward node: `first[s]` is the name of the first node of stage s + 1.
std::vector<int> SplitAt(const TrainingGraph& training, const std::vector<std::string>& first) {
  std::vector<int> stage_of;
  int stage = 0;
  for (int i = 0; i < training.forward_nodes; ++i) {
    if (stage < static_cast<int>(first.size()) &&
        training.graph.node(NodeId(i)).name == first[stage]) {
      ++stage;
    }
    stage_of.push_back(stage);
  }
  EXPECT_EQ(stage, static_cast<int>(first.size()));
  return stage_of;
}

TEST(CutStagesTest, ASkipConnectionIsRelayedBothWays) {
  TrainingGraph training = Residual();
  const Graph& graph = training.graph;
  // relu1 is read by conv2 on stage 1 and by add on stage 2.
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(training, SplitAt(training, {"conv2", "conv3"}), 3));
  EXPECT_THAT(Names(graph, stages[0].sent), ElementsAre("relu1:0"));
  EXPECT_THAT(Names(graph, stages[1].sent), ElementsAre("relu1:0", "relu2:0"));
  EXPECT_THAT(stages[0].received, IsEmpty());
  EXPECT_THAT(stages[2].sent, IsEmpty());
  // Stage 2 sends the gradients of relu2, and of relu1 by way of add; stage 1 adds conv2's.
  ASSERT_EQ(stages[2].gradients_sent.size(), 2u);
  ASSERT_EQ(stages[1].gradients_sent.size(), 1u);
  const Value& sum = graph.value(stages[1].gradients_sent[0]);
  EXPECT_EQ(graph.node(sum.producer).op, "Add");
  EXPECT_EQ(graph.node(training.origin[sum.producer.value()]).name, "conv2");
  EXPECT_THAT(stages[2].gradients_received, IsEmpty());
  EXPECT_THAT(stages[0].gradients_sent, IsEmpty());
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
  EXPECT_THAT(Names(training.graph, stages[0].sent), ElementsAre("a:0"));
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
  EXPECT_THAT(Names(evaluation.graph, stages[1].received), ElementsAre("relu1:0", "relu2:0"));
  EXPECT_THAT(stages[0].gradients_received, IsEmpty());
  EXPECT_THAT(stages[1].saved, IsEmpty());
}

// Runs stages one after the other, each with what its lists say and nothing else.
class StagedRun {
 public:
  using Store = std::map<ValueId, ReferenceTensor>;

  StagedRun(const TrainingGraph& training, const std::vector<StageGraph>& stages, Store given)
      : training_(training), stages_(stages), given_(std::move(given)), forward_(stages.size()) {}

  // All gradients of parameters.
  Store Run() {
    Store channel;
    for (size_t s = 0; s < stages_.size(); ++s) {
      const StageGraph& stage = stages_[s];
      Store store = Fixed(stage);
      Take(store, stage.inputs, given_);
      Take(store, stage.received, channel);
      RunNodes(stage.forward, store);
      channel.clear();
      Take(channel, stage.sent, store);
      Take(forward_[s], stage.saved, store);
    }
    Store gradients;
    channel.clear();
    for (size_t s = stages_.size(); s-- > 0;) {
      const StageGraph& stage = stages_[s];
      Store store = Fixed(stage);
      store.insert(forward_[s].begin(), forward_[s].end());
      Take(store, stage.gradients_received, channel);
      RunNodes(stage.input_gradient, store);
      channel.clear();
      Take(channel, stage.gradients_sent, store);  // before the weight gradients
      RunNodes(stage.weight_gradient, store);
      for (const ParameterGradient& g : training_.gradients) {
        if (std::count(stage.parameters.begin(), stage.parameters.end(), g.parameter) > 0) {
          Take(gradients, {g.gradient}, store);
        }
      }
    }
    return gradients;
  }

 private:
  Store Fixed(const StageGraph& stage) {
    Store store;
    Take(store, stage.parameters, given_);
    Take(store, stage.states, given_);
    for (size_t i = 0; i < training_.graph.values().size(); ++i) {
      ValueId id(static_cast<int32_t>(i));
      if (training_.graph.value(id).kind == ValueKind::kConstant) Take(store, {id}, given_);
    }
    return store;
  }

  void Take(Store& to, const std::vector<ValueId>& ids, const Store& from) {
    for (ValueId id : ids) {
      auto it = from.find(id);
      ASSERT_NE(it, from.end()) << training_.graph.value(id).name << " is not at hand";
      to.emplace(*it);
    }
  }

  void RunNodes(const std::vector<NodeId>& nodes, Store& store) {
    for (NodeId id : nodes) {
      const Node& node = training_.graph.node(id);
      std::vector<ReferenceTensor> inputs;
      for (ValueId input : node.inputs) {
        ASSERT_EQ(store.count(input), 1u)
            << node.name << " reads " << training_.graph.value(input).name;
        inputs.push_back(store[input]);
      }
      auto outputs = RunReference(training_.graph, node, inputs);
      ASSERT_OK(outputs);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != kNoValue) store[node.outputs[i]] = (*outputs)[i];
      }
    }
  }

  const TrainingGraph& training_;
  const std::vector<StageGraph>& stages_;
  const Store given_;
  std::vector<Store> forward_;
};

TEST(CutStagesTest, AnyCutGivesTheSameGradientsFromItsListsAlone) {
  TrainingGraph training = Residual();
  constexpr uint32_t kSeed = 4711;
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  ReferenceTensor x(4 * 2 * 6 * 6);
  for (double& v : x) v = uniform(random);
  ASSERT_OK_AND_ASSIGN(auto whole,
                       RunReferenceGraph(training.graph, {{"x", x}, {"y", {0, 2, 1, 1}}}));
  StagedRun::Store given;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (training.graph.values()[i].kind == ValueKind::kComputed) continue;
    given[ValueId(static_cast<int32_t>(i))] = whole[i];
  }
  for (int round = 0; round < 16; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    int stages = 1 + static_cast<int>(random() % training.forward_nodes);
    std::vector<int> order(training.forward_nodes - 1);
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i) + 1;
    std::shuffle(order.begin(), order.end(), random);
    std::set<int> starts(order.begin(), order.begin() + (stages - 1));
    std::vector<int> stage_of;
    int stage = 0;
    for (int i = 0; i < training.forward_nodes; ++i) {
      stage += static_cast<int>(starts.count(i));
      stage_of.push_back(stage);
    }
    ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> cut, CutStages(training, stage_of, stages));
    for (int s = 0; s + 1 < stages; ++s) {
      EXPECT_EQ(cut[s].sent, cut[s + 1].received);
      EXPECT_EQ(cut[s].gradients_received, cut[s + 1].gradients_sent);
    }
    StagedRun::Store gradients = StagedRun(training, cut, given).Run();
    if (HasFatalFailure()) return;
    ASSERT_EQ(gradients.size(), training.gradients.size());
    for (const auto& [id, gradient] : gradients) {
      EXPECT_EQ(gradient, whole[id.value()]) << training.graph.value(id).name;
    }
  }
}

}  // namespace
}  // namespace pipedream
