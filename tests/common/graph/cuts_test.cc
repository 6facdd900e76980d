#include "common/graph/cuts.h"

#include <random>

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
      {"bn", kPlane, kPlane},  // update runs where the statistics are made
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
  EXPECT_THAT(TiedNodes(training), ElementsAre(ElementsAre(0, 2)));
}

TEST(CrossingTensorsTest, NamesWhoMakesAndWhoReads) {
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(ResidualNet(), {CrossEntropyOn("logits:0", "y")}));
  const auto node = [&](const char* name) { return FindNode(training.graph, name).value(); };
  int forward = 0;
  for (const CrossingTensor& tensor : CrossingTensors(training)) {
    EXPECT_TRUE(std::ranges::is_sorted(tensor.readers));
    EXPECT_THAT(tensor.readers, testing::Not(testing::Contains(tensor.made)));
    if (tensor.gradient || tensor.made != node("relu1")) continue;
    ++forward;
    EXPECT_THAT(tensor.readers, ElementsAre(node("conv2"), node("add")));
  }
  EXPECT_EQ(forward, 1);
  EXPECT_TRUE(TiedNodes(training).empty());
}

// Of the tensors that the cut behind node `cut` parts.
int64_t CrossingBytes(const TrainingGraph& training, int cut, bool gradient) {
  int64_t bytes = 0;
  for (const CrossingTensor& tensor : CrossingTensors(training)) {
    const bool early = gradient ? tensor.readers.front() <= cut : tensor.made <= cut;
    const bool late = gradient ? tensor.made > cut : tensor.readers.back() > cut;
    if (tensor.gradient == gradient && early && late)
      bytes += training.graph.value(tensor.value).bytes();
  }
  return bytes;
}

void ExpectAgreement(const TrainingGraph& training) {
  std::vector<CutInfo> cuts = PrefixCuts(training);
  for (size_t c = 0; c < cuts.size(); ++c) {
    std::vector<int> stage_of(training.forward_nodes, 1);
    std::fill_n(stage_of.begin(), c + 1, 0);
    ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> stages, CutStages(training, stage_of, 2));
    int64_t forward = 0;
    int64_t gradient = 0;
    for (const StageMessage& message : stages[0].sent)
      for (ValueId id : message.values) forward += training.graph.value(id).bytes();
    for (const StageMessage& message : stages[1].gradients_sent)
      for (ValueId id : message.values) gradient += training.graph.value(id).bytes();
    EXPECT_EQ(cuts[c].forward_bytes, forward) << c;
    EXPECT_EQ(cuts[c].gradient_bytes, gradient) << c;
    EXPECT_EQ(CrossingBytes(training, static_cast<int>(c), false), forward) << c;
    EXPECT_EQ(CrossingBytes(training, static_cast<int>(c), true), gradient) << c;
  }
}

TEST(PrefixCutsTest, AgreesWithCutStages) {
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(ResidualNet(), {CrossEntropyOn("logits:0", "y")}));
  ExpectAgreement(training);
}

// Two parts of x's gradient are made behind the cut though a reader lies before it: add passes on
// the gradient of its output. They are added behind the cut, and one sum crosses.
TEST(PrefixCutsTest, AgreesWhereAGradientIsPassedOn) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId h = AddOp(builder, "h", "MatMul", {x, w});
  ValueId add = AddOp(builder, "add", "Add", {h, x});
  ValueId tanh = AddOp(builder, "tanh", "Tanh", {add});
  builder.AddOutput(AddOp(builder, "y", "Mul", {tanh, h}));
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("y:0", "t")}));
  ExpectAgreement(training);
  EXPECT_EQ(PrefixCuts(training)[FindNode(training.graph, "add").value()].gradient_bytes,
            2 * 3 * 4);
}

TEST(PrefixCutsTest, TheSharesOfATiedParameterDoNotCross) {
  std::mt19937 random(1);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({2, 3}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({3, 3}), random));
  ValueId a = AddOp(builder, "a", "MatMul", {x, w});
  builder.AddOutput(AddOp(builder, "b", "MatMul", {a, w}));
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(MustBuild(std::move(builder)), {MseOn("b:0", "t")}));
  EXPECT_EQ(PrefixCuts(training)[0], (CutInfo{2 * 3 * 4, 2 * 3 * 4, w}));
}

}  // namespace
}  // namespace pipedream
