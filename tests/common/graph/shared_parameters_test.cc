#include <map>
#include <random>

#include "common/graph/training_graph.h"
#include "tests/common/graph/staged_run.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// w is read by a, c, d and e: r = x w; s = relu(r); s w + s; ...
Graph TiedNet() {
  std::mt19937 random(2);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({3, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId v = builder.AddParameter("v", RandomTensor(Shape({3, 3}), random));
  ValueId a = AddOp(builder, "a", "MatMul", {x, w});
  ValueId b = AddOp(builder, "b", "Tanh", {a});
  ValueId c = AddOp(builder, "c", "Add", {b, w});  // passes its gradient on
  ValueId d = AddOp(builder, "d", "MatMul", {c, v});
  ValueId e = AddOp(builder, "e", "Mul", {d, w});
  ValueId f = AddOp(builder, "f", "MatMul", {e, w});
  builder.AddOutput(f);
  return MustBuild(std::move(builder));
}

TrainingGraph Train(const Graph& graph, const std::vector<int>& stage_of) {
  auto training = MakeTrainingGraph(graph, {MseOn("f:0", "t")}, stage_of);
  EXPECT_OK(training);
  return *std::move(training);
}

TEST(SharedParametersTest, EveryStageSumsOverItsOwnReaders) {
  // a, b, c | d, e | f, mse
  const std::vector<int> stage_of = {0, 0, 0, 1, 1, 2, 2};
  TrainingGraph training = Train(TiedNet(), stage_of);
  const ValueId w = training.graph.FindValue("w");
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages, CutStages(training, stage_of, 3, true));
  for (int s = 0; s < 3; ++s) {
    EXPECT_THAT(stages[s].shared, ElementsAre(SharedParameter{w, {0, 1, 2}})) << s;
    EXPECT_EQ(stages[s].gradients.front().parameter, w);
    EXPECT_EQ(stages[s].gradients.front().stage, s);
  }
  // Two readers on stage 0, the later one first.
  const Graph& graph = training.graph;
  const Node& sum = graph.node(graph.value(stages[0].gradients[0].gradient).producer);
  EXPECT_EQ(sum.op, "Add");
  EXPECT_THAT(EdgesOf(stages), ElementsAre(StageEdge{0, 1, false}, StageEdge{1, 0, true},
                                           StageEdge{1, 2, false}, StageEdge{2, 1, true}));
}

TEST(SharedParametersTest, AParameterOfOneStageIsNotShared) {
  const std::vector<int> stage_of = {0, 0, 0, 0, 0, 0, 1};
  TrainingGraph training = Train(TiedNet(), stage_of);
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages, CutStages(training, stage_of, 2, true));
  EXPECT_THAT(stages[0].shared, IsEmpty());
  EXPECT_EQ(stages[0].gradients.size(), 2u);
  for (const ParameterGradient& g : training.gradients) EXPECT_EQ(g.stage, -1);
  EXPECT_OK(CutStages(training, stage_of, 2));
}

TEST(SharedParametersTest, TheSharesAddUpToTheGradient) {
  constexpr uint32_t kSeed = 99;
  std::mt19937 random(kSeed);
  const Graph forward = TiedNet();
  TrainingGraph plain = Train(forward, {});
  const std::map<std::string, ReferenceTensor> given = {{"x", RandomReference(9, random)},
                                                        {"t", RandomReference(9, random)}};
  ASSERT_OK_AND_ASSIGN(auto expected, RunReferenceGraph(plain.graph, given));
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const int stages = 1 + static_cast<int>(random() % 4);
    const std::vector<int> stage_of = RandomStages(plain, stages, random);
    TrainingGraph training = Train(forward, stage_of);
    ASSERT_OK_AND_ASSIGN(auto whole, RunReferenceGraph(training.graph, given));
    ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> cut, CutStages(training, stage_of, stages, true));
    std::vector<StagedRun::Store> gradients =
        StagedRun(training, cut, GivenOf(training, whole)).Run();
    if (HasFatalFailure()) return;
    std::map<ValueId, ReferenceTensor> sums;
    for (int s = 0; s < stages; ++s) {
      for (const ParameterGradient& g : cut[s].gradients) {
        ReferenceTensor& sum = sums.try_emplace(g.parameter, ReferenceTensor(9)).first->second;
        for (int k = 0; k < 9; ++k) sum[k] += gradients[s].at(g.gradient)[k];
      }
    }
    ASSERT_EQ(sums.size(), plain.gradients.size());
    for (const ParameterGradient& g : plain.gradients)
      for (int k = 0; k < 9; ++k)
        EXPECT_NEAR(sums.at(g.parameter)[k], expected[g.gradient.value()][k], 1e-12);
  }
}

TEST(SharedParametersTest, RefusesWhatDoesNotFit) {
  const std::vector<int> stage_of = {0, 0, 0, 1, 1, 2, 2};
  TrainingGraph plain = Train(TiedNet(), {});
  EXPECT_THAT(CutStages(plain, stage_of, 3, true),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the gradient of 'w' is not summed per stage")));
  TrainingGraph shared = Train(TiedNet(), stage_of);
  EXPECT_THAT(CutStages(shared, stage_of, 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parameter 'w' is read in two stages")));
  EXPECT_THAT(MakeTrainingGraph(TiedNet(), {MseOn("f:0", "t")}, {0, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stages are given for 2 nodes, the graph has 7")));
}

TEST(SharedParametersTest, AHolderWithoutGradientIsRefused) {
  std::mt19937 random(2);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({3, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId a = AddOp(builder, "a", "MatMul", {x, w});
  AddOp(builder, "deadend", "MatMul", {a, w});
  builder.AddOutput(a);
  const std::vector<int> stage_of = {0, 1, 1};
  ASSERT_OK_AND_ASSIGN(TrainingGraph training, MakeTrainingGraph(MustBuild(std::move(builder)),
                                                                 {MseOn("a:0", "t")}, stage_of));
  EXPECT_THAT(CutStages(training, stage_of, 2, true),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parameter 'w' is read on stage 1, but gets its gradient on "
                                 "stage 0 only")));
}

TEST(SharedParametersTest, EvaluationReadsTheCopies) {
  ASSERT_OK_AND_ASSIGN(TrainingGraph evaluation,
                       MakeEvaluationGraph(TiedNet(), {MseOn("f:0", "t")}));
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages,
                       CutStages(evaluation, {0, 0, 0, 1, 1, 2, 2}, 3, true));
  EXPECT_THAT(Names(evaluation.graph, stages[2].parameters), ElementsAre("w"));
}

}  // namespace
}  // namespace pipedream
