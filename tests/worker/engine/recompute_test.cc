#include "worker/engine/recompute.h"

#include <algorithm>
#include <random>

#include "tests/common/graph/test_graphs.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A chain of tanh nodes behind x w: t1 ... t6. The gradient of each reads its output.
class RecomputeTest : public testing::Test {
 protected:
  RecomputeTest() {
    std::mt19937 random(1);
    GraphBuilder builder;
    ValueId v = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
    ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
    v = AddOp(builder, "t0", "MatMul", {v, w});
    for (int i = 1; i <= 6; ++i) v = AddOp(builder, "t" + std::to_string(i), "Tanh", {v});
    builder.AddOutput(v);
    auto training = MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("t6:0", "y")});
    EXPECT_OK(training);
    training_ = *std::move(training);
    auto cut = CutStages(training_, std::vector<int>(training_.forward_nodes, 0), 1);
    EXPECT_OK(cut);
    stage_ = (*cut)[0];
    gradients_ = stage_.input_gradient;
    gradients_.insert(gradients_.end(), stage_.weight_gradient.begin(),
                      stage_.weight_gradient.end());
  }

  NodeId Forward(const std::string& name) const { return FindNode(training_.graph, name); }
  // Forward nodes by name; a gradient node as "-" and its origin's name.
  std::vector<std::string> NamesOf(const std::vector<NodeId>& nodes) const {
    std::vector<std::string> names;
    for (NodeId id : nodes) {
      const bool forward = id.value() < training_.forward_nodes;
      names.push_back((forward ? "" : "-") +
                      training_.graph.node(training_.origin[id.value()]).name);
    }
    return names;
  }
  std::vector<std::string> ValueNames(const std::set<ValueId>& values) const {
    std::vector<std::string> names;
    for (ValueId id : values) names.push_back(training_.graph.value(id).name);
    return names;
  }

  TrainingGraph training_;
  StageGraph stage_;
  std::vector<NodeId> gradients_;
};

TEST_F(RecomputeTest, KeepsAllThatBackwardReadsUnlessAsked) {
  BackwardPlan plan(training_, stage_, {});
  const std::set<ValueId> kept = plan.Kept(gradients_);
  EXPECT_EQ(std::vector<ValueId>(kept.begin(), kept.end()), stage_.saved);
  EXPECT_THAT(NamesOf(plan.Order(gradients_)),
              ElementsAre("-t6:0/mse", "-t6", "-t5", "-t4", "-t3", "-t2", "-t1", "-t0"));
}

TEST_F(RecomputeTest, StageInputsRunTheWholeForwardAgain) {
  BackwardPlan plan(training_, stage_, {true, {}});
  EXPECT_THAT(ValueNames(plan.Kept(gradients_)), UnorderedElementsAre("x", "y"));
  // Not the loss: nothing reads what it makes.
  EXPECT_THAT(NamesOf(plan.Order(gradients_)),
              ElementsAre("t0", "t1", "t2", "t3", "t4", "t5", "t6", "-t6:0/mse", "-t6", "-t5",
                          "-t4", "-t3", "-t2", "-t1", "-t0"));
}

TEST_F(RecomputeTest, SegmentsRunAgainFromTheLastToTheFirst) {
  BackwardPlan plan(training_, stage_, {true, {Forward("t4"), Forward("t2")}});
  EXPECT_THAT(ValueNames(plan.Kept(gradients_)), UnorderedElementsAre("x", "t2:0", "t4:0", "y"));
  EXPECT_THAT(NamesOf(plan.Order(gradients_)),
              ElementsAre("t5", "t6", "-t6:0/mse", "-t6", "-t5", "-t4", "t3", "-t3", "-t2", "t0",
                          "t1", "-t1", "-t0"));
}

TEST_F(RecomputeTest, AProgramRunsAgainOnlyWhatItReads) {
  BackwardPlan plan(training_, stage_, {true, {}});
  EXPECT_THAT(NamesOf(plan.Order(stage_.weight_gradient)), ElementsAre("-t0"));
  EXPECT_THAT(ValueNames(plan.Kept(stage_.weight_gradient)), UnorderedElementsAre("x"));
  EXPECT_THAT(NamesOf(plan.Order({})), IsEmpty());
}

TEST_F(RecomputeTest, CheckpointsOfOtherStagesDoNotCount) {
  std::vector<int> stage_of(training_.forward_nodes, 1);
  for (int n = 0; n < 4; ++n) stage_of[n] = 0;  // t0 .. t3
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> cut, CutStages(training_, stage_of, 2));
  BackwardPlan plan(training_, cut[1], {true, {Forward("t2"), Forward("t5")}});
  EXPECT_THAT(ValueNames(plan.Kept(cut[1].input_gradient)),
              UnorderedElementsAre("t3:0", "t5:0", "y"));
  EXPECT_THAT(NamesOf(plan.Order(cut[1].input_gradient)),
              ElementsAre("t6", "-t6:0/mse", "-t6", "-t5", "t4", "-t4"));
}

TEST(RecomputeStatesTest, RunningStatisticsAreNeverUpdatedAgain) {
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(ResidualNet(), {CrossEntropyOn("logits:0", "y")}));
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> cut,
                       CutStages(training, std::vector<int>(training.forward_nodes, 0), 1));
  std::vector<NodeId> gradients = cut[0].input_gradient;
  gradients.insert(gradients.end(), cut[0].weight_gradient.begin(), cut[0].weight_gradient.end());
  BackwardPlan plan(training, cut[0], {true, {}});
  for (NodeId id : plan.Order(gradients))
    EXPECT_NE(training.graph.node(id).op, "UpdateRunningStatistics");
}

// A slot would hold a copy of the weights for every microbatch in flight; and where backward reads
// a newer version than forward did, it must read that version's.
TEST(RecomputeWeightsTest, WhatFollowsFromWeightsAloneIsNotKept) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId v = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  v = AddOp(builder, "first", "Tanh", {AddOp(builder, "linear", "MatMul", {v, w})});
  v = AddOp(builder, "second", "MatMul", {v, AddOp(builder, "squashed", "Tanh", {w})});
  builder.AddOutput(v);
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("second:0", "y")}));
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> cut,
                       CutStages(training, std::vector<int>(training.forward_nodes, 0), 1));
  BackwardPlan plan(training, cut[0], {});
  std::vector<NodeId> gradients = cut[0].input_gradient;
  gradients.insert(gradients.end(), cut[0].weight_gradient.begin(), cut[0].weight_gradient.end());
  const NodeId squashed = FindNode(training.graph, "squashed");
  for (ValueId kept : plan.Kept(gradients)) {
    EXPECT_NE(training.graph.value(kept).producer, squashed);
  }
  EXPECT_EQ(std::ranges::count(plan.Order(gradients), squashed), 1);
}

}  // namespace
}  // namespace pipedream
