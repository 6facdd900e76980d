#include "common/graph/cuts.h"

#include "tests/common/graph/test_graphs.h"

namespace pipedream {
namespace {

using testing::ElementsAre;

TEST(PrefixCutsTest, CountsWhatCrossesEachCut) {
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(ResidualNet(), {CrossEntropyOn("logits:0", "y")}));
  std::vector<CutInfo> cuts = PrefixCuts(training);
  ASSERT_EQ(static_cast<int>(cuts.size()), training.forward_nodes - 1);
  constexpr int64_t kPlane = 4 * 4 * 3 * 6 * 6;  // bytes of every feature map before the pool
  struct {
    std::string after;
    int64_t forward, gradient;
  } expected[] = {
      {"conv1", kPlane, kPlane},
      {"bn", kPlane + 2 * 3 * 4, kPlane},  // the statistics, which update reads
      {"update", kPlane, kPlane},
      {"relu1", kPlane, kPlane},
      {"conv2", 2 * kPlane, 2 * kPlane},
      {"relu2", 2 * kPlane, 2 * kPlane},
      // add passes one gradient on to both of its inputs.
      {"conv3", 2 * kPlane, kPlane},
      {"add", kPlane, kPlane},
      {"pool", kPlane / 4, kPlane / 4},
      {"flat", kPlane / 4, kPlane / 4},
      {"logits", 4 * 4 * 3, 4 * 4 * 3},
  };
  for (const auto& e : expected) {
    const CutInfo& cut = cuts[FindNode(training.graph, e.after).value()];
    EXPECT_EQ(cut.forward_bytes, e.forward) << e.after;
    EXPECT_EQ(cut.gradient_bytes, e.gradient) << e.after;
    EXPECT_TRUE(cut.legal());
  }
}

TEST(PrefixCutsTest, ATiedParameterForbidsTheCutsBetweenItsReaders) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId a = AddOp(builder, "a", "MatMul", {x, w});
  ValueId r = AddOp(builder, "r", "Relu", {a});
  ValueId b = AddOp(builder, "b", "MatMul", {r, w});
  builder.AddOutput(AddOp(builder, "c", "Tanh", {b}));
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("c:0", "t")}));
  std::vector<ValueId> shared;
  for (const CutInfo& cut : PrefixCuts(training)) shared.push_back(cut.shared_parameter);
  EXPECT_THAT(shared, ElementsAre(w, w, kNoValue, kNoValue));
}

TEST(PrefixCutsTest, AgreesWithCutStages) {
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(ResidualNet(), {CrossEntropyOn("logits:0", "y")}));
  std::vector<CutInfo> cuts = PrefixCuts(training);
  for (size_t c = 0; c < cuts.size(); ++c) {
    std::vector<int> stage_of(training.forward_nodes, 1);
    std::fill_n(stage_of.begin(), c + 1, 0);
    ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages, CutStages(training, stage_of, 2));
    int64_t forward = 0;
    int64_t gradient = 0;
    for (ValueId id : stages[0].sent) forward += training.graph.value(id).bytes();
    for (ValueId id : stages[1].gradients_sent) gradient += training.graph.value(id).bytes();
    EXPECT_EQ(cuts[c].forward_bytes, forward) << c;
    EXPECT_EQ(cuts[c].gradient_bytes, gradient) << c;
  }
}

}  // namespace
}  // namespace pipedream
