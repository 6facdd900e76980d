#include "worker/engine/stage_compiler.h"

#include <ostream>
#include <random>

#include "tests/common/graph/staged_run.h"
#include "tests/worker/engine/pipeline_run.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kSamples = 4;
constexpr int64_t kPlane = 3 * 6 * 6;

// Convolutions with batch normalisation and dropout; "relu1" is read by "add0", "add1" and "add2",
// and the integer input "ids" by "pick0" and "pick2".
Graph SkipNet() {
  std::mt19937 random(1);
  GraphBuilder b;
  auto parameter = [&](std::string name, Shape shape) {
    return b.AddParameter(std::move(name), RandomTensor(shape, random, -0.5, 0.5));
  };
  auto batch_norm = [&](const std::string& name, ValueId x) {
    std::vector<ValueId> out =
        AddAll(b, name, "BatchNormalization",
               {x, parameter(name + ".scale", Shape({3})), parameter(name + ".shift", Shape({3}))},
               Attributes().Set("epsilon", 1e-5));
    ValueId mean = b.AddState(name + ".mean", Tensor::FromVector<float>(Shape({3}), {0, 0, 0}));
    ValueId variance =
        b.AddState(name + ".variance", Tensor::FromVector<float>(Shape({3}), {1, 1, 1}));
    AddAll(b, name + ".update", "UpdateRunningStatistics", {out[1], out[2], mean, variance},
           Attributes().Set("momentum", 0.9).Set("count", kSamples * 36));
    return out[0];
  };
  auto pick = [&](const std::string& name, ValueId ids) {
    ValueId row = AddOp(b, name, "Gather", {parameter(name + ".table", Shape({5, kPlane})), ids},
                        Attributes().Set("axis", int64_t{0}));
    return AddOp(b, name + ".plane", "Reshape", {row},
                 Attributes().Set("shape", Ints{kSamples, 3, 6, 6}));
  };
  ValueId x = b.AddInput("x", DataType::kFloat32, Shape({kSamples, 2, 6, 6}));
  ValueId ids = b.AddInput("ids", DataType::kInt64, Shape({kSamples}));
  ValueId conv1 = AddOp(b, "conv1", "Conv", {x, parameter("w1", Shape({3, 2, 3, 3}))}, Conv3x3());
  ValueId relu1 = AddOp(b, "relu1", "Relu", {batch_norm("bn1", conv1)});
  ValueId add0 = AddOp(b, "add0", "Add", {relu1, pick("pick0", ids)});
  ValueId conv2 =
      AddOp(b, "conv2", "Conv",
            {add0, parameter("w2", Shape({3, 3, 3, 3})), parameter("b2", Shape({3}))}, Conv3x3());
  ValueId relu2 = AddOp(b, "relu2", "Relu", {conv2});
  ValueId drop =
      AddOp(b, "drop", "Dropout", {relu2}, Attributes().Set("ratio", 0.25).Set("key", int64_t{7}));
  ValueId add1 = AddOp(b, "add1", "Add", {drop, relu1});
  ValueId conv3 =
      AddOp(b, "conv3", "Conv", {add1, parameter("w3", Shape({3, 3, 3, 3}))}, Conv3x3());
  ValueId tanh = AddOp(b, "tanh", "Tanh", {batch_norm("bn2", conv3)});
  ValueId add2 = AddOp(b, "add2", "Add", {tanh, relu1});
  ValueId add3 = AddOp(b, "add3", "Add", {add2, pick("pick2", ids)});
  ValueId pool =
      AddOp(b, "pool", "MaxPool", {add3}, WindowAttributes({2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}));
  ValueId flat = AddOp(b, "flat", "Reshape", {pool}, Attributes().Set("shape", Ints{kSamples, 27}));
  b.AddOutput(AddOp(b, "logits", "Gemm",
                    {flat, parameter("w4", Shape({27, 3})), parameter("b4", Shape({3}))},
                    GemmAttributes()));
  return MustBuild(std::move(b));
}

std::map<std::string, Tensor> Inputs() {
  std::mt19937 random(5);
  return {{"x", RandomTensor(Shape({kSamples, 2, 6, 6}), random)},
          {"ids", Tensor::FromVector<int64_t>(Shape({kSamples}), {3, 0, 4, 3})},
          {"y", Tensor::FromVector<int64_t>(Shape({kSamples}), {0, 2, 1, 1})}};
}

struct CompilerCase {
  const char* name;
  std::vector<std::string> cuts;  // first nodes of the stages behind the first
  bool split;
  bool recompute;
  std::vector<std::string> checkpoints;
};
void PrintTo(const CompilerCase& c, std::ostream* out) { *out << c.name; }

class StageCompilerTest : public testing::TestWithParam<CompilerCase> {
 protected:
  StageCompilerTest() {
    auto training = MakeTrainingGraph(SkipNet(), {CrossEntropyOn("logits:0", "y")});
    EXPECT_OK(training);
    training_ = *std::move(training);
  }
  absl::StatusOr<PipelineResult> Run(const CompilerCase& c) {
    const int stages = static_cast<int>(c.cuts.size()) + 1;
    PD_ASSIGN_OR_RETURN(std::vector<StageGraph> cut,
                        CutStages(training_, SplitAt(training_, c.cuts), stages));
    CompileOptions options{!c.split, c.split, {c.recompute, {}}};
    for (const std::string& name : c.checkpoints)
      options.recompute.checkpoints.push_back(FindNode(training_.graph, name));
    return RunPipeline(training_, cut, options, Inputs());
  }
  TrainingGraph training_;
};

TEST_P(StageCompilerTest, IsBitEqualToTheWholeModelInOneProgram) {
  ASSERT_OK_AND_ASSIGN(PipelineResult whole, Run({"", {}, false, false, {}}));
  ASSERT_OK_AND_ASSIGN(PipelineResult result, Run(GetParam()));
  EXPECT_EQ(result.loss, whole.loss);
  ASSERT_EQ(whole.gradients.size(), training_.gradients.size());
  EXPECT_EQ(result.gradients, whole.gradients);  // a NaN anywhere would differ from itself
  EXPECT_EQ(result.states, whole.states);
}

// Stage 1 begins at conv2, stage 2 at conv3, stage 3 at pool; relu1 is then read on three stages,
// ids on two.
const std::vector<std::string> kFour = {"conv2", "conv3", "pool"};

INSTANTIATE_TEST_SUITE_P(
    Programs, StageCompilerTest,
    testing::Values(
        CompilerCase{"Cut", kFour, false, false, {}},
        CompilerCase{"CutInTwo", {"conv2"}, false, false, {}},
        CompilerCase{"Split", {}, true, false, {}},
        CompilerCase{"SplitCut", kFour, true, false, {}},
        CompilerCase{"Recompute", {}, false, true, {}},
        CompilerCase{"RecomputeCut", kFour, false, true, {}},
        CompilerCase{"RecomputeCheckpoints", {}, false, true, {"relu1", "drop", "add2"}},
        CompilerCase{"RecomputeOddCheckpoints", {}, false, true, {"bn1", "conv2", "pool"}},
        CompilerCase{"SplitRecompute", {}, true, true, {}},
        CompilerCase{"SplitRecomputeCheckpoints", {}, true, true, {"add0", "add1", "tanh"}},
        CompilerCase{"SplitRecomputeCut", kFour, true, true, {"relu2"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(StageCompilerTest, BothFormsMayBeCompiledTogether) {
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> cut,
                       CutStages(training_, SplitAt(training_, {}), 1));
  ASSERT_OK_AND_ASSIGN(PipelineResult alone,
                       RunPipeline(training_, cut, {true, false, {}}, Inputs()));
  ASSERT_OK_AND_ASSIGN(PipelineResult both,
                       RunPipeline(training_, cut, {true, true, {}}, Inputs()));
  EXPECT_EQ(both.gradients, alone.gradients);
  EXPECT_GT(both.slot_bytes[0], alone.slot_bytes[0]);  // what is handed from part to part
}

TEST_F(StageCompilerTest, RecomputeKeepsLess) {
  ASSERT_OK_AND_ASSIGN(PipelineResult all, Run({"", {}, false, false, {}}));
  ASSERT_OK_AND_ASSIGN(PipelineResult some, Run({"", {}, false, true, {"relu1", "add1"}}));
  ASSERT_OK_AND_ASSIGN(PipelineResult inputs, Run({"", {}, false, true, {}}));
  EXPECT_LT(some.slot_bytes[0], all.slot_bytes[0]);
  EXPECT_LT(inputs.slot_bytes[0], some.slot_bytes[0]);
  // x, ids and y, each in blocks of 64 bytes.
  EXPECT_EQ(inputs.slot_bytes[0], kSamples * 2 * 36 * sizeof(float) + 64 + 64);
}

TEST_F(StageCompilerTest, CompilesOnlyWhatIsAsked) {
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> cut,
                       CutStages(training_, SplitAt(training_, {"conv3"}), 2));
  std::unique_ptr<KernelBackend> backend = MakeOneDnnBackend();
  StageLayout layout;
  ASSERT_OK_AND_ASSIGN(CompiledStage fused, CompileStage(training_, cut[1], *backend, kSamples,
                                                         {true, false, {}}, &layout));
  EXPECT_THAT(fused.backward_input.steps, IsEmpty());
  EXPECT_THAT(fused.backward_weight.steps, IsEmpty());
  EXPECT_EQ(fused.backward.sent.size(), 1u);
  ASSERT_OK_AND_ASSIGN(CompiledStage split, CompileStage(training_, cut[1], *backend, kSamples,
                                                         {false, true, {}}, &layout));
  EXPECT_THAT(split.backward.steps, IsEmpty());
  // Messages belong to the input part.
  EXPECT_EQ(split.backward_input.sent.size(), 1u);
  EXPECT_THAT(split.backward_weight.sent, IsEmpty());
  EXPECT_THAT(split.backward_weight.received, IsEmpty());
  for (const CompiledStep& step : split.backward_weight.steps)
    EXPECT_NE(training_.pass[step.node.value()], Pass::kForward);
}

TEST(SharedParameterLayoutTest, EveryHolderHasItsShareRowMajor) {
  std::mt19937 random(2);
  GraphBuilder builder;
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({kSamples, 8}));
  ValueId w = builder.AddParameter("w", RandomTensor(Shape({8, 8}), random));
  ValueId v = builder.AddParameter("v", RandomTensor(Shape({8, 8}), random));
  ValueId a = AddOp(builder, "a", "MatMul", {x, w});
  ValueId b = AddOp(builder, "b", "MatMul", {a, v});
  ValueId c = AddOp(builder, "c", "MatMul", {b, w});
  builder.AddOutput(AddOp(builder, "d", "MatMul", {c, w}));
  const Graph forward = MustBuild(std::move(builder));
  const std::map<std::string, Tensor> inputs = {{"x", RandomTensor(Shape({kSamples, 8}), random)},
                                                {"t", RandomTensor(Shape({kSamples, 8}), random)}};

  ASSERT_OK_AND_ASSIGN(TrainingGraph plain, MakeTrainingGraph(forward, {MseOn("d:0", "t")}));
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> one, CutStages(plain, {0, 0, 0, 0, 0}, 1));
  ASSERT_OK_AND_ASSIGN(PipelineResult whole, RunPipeline(plain, one, {}, inputs));

  const std::vector<int> stage_of = {0, 0, 1, 1, 1};
  ASSERT_OK_AND_ASSIGN(TrainingGraph training,
                       MakeTrainingGraph(forward, {MseOn("d:0", "t")}, stage_of));
  ASSERT_OK_AND_ASSIGN(std::vector<StageGraph> cut, CutStages(training, stage_of, 2, true));
  ASSERT_OK_AND_ASSIGN(PipelineResult shared, RunPipeline(training, cut, {}, inputs));
  EXPECT_EQ(shared.loss, whole.loss);
  EXPECT_EQ(shared.gradients.at("v"), whole.gradients.at("v"));
  const std::vector<float>& sum = whole.gradients.at("w");
  ASSERT_EQ(shared.gradients.size(), 3u);
  for (size_t k = 0; k < sum.size(); ++k)
    EXPECT_NEAR(shared.gradients.at("w@0")[k] + shared.gradients.at("w@1")[k], sum[k],
                1e-5 * (1 + std::abs(sum[k])));

  std::unique_ptr<KernelBackend> backend = MakeOneDnnBackend();
  for (int s = 0; s < 2; ++s) {
    StageLayout layout;
    ASSERT_OK(CompileStage(training, cut[s], *backend, kSamples, {}, &layout));
    auto held = std::ranges::find(layout.parameters, "w", &StoredTensor::name);
    ASSERT_NE(held, layout.parameters.end());
    EXPECT_THAT(held->holders, ElementsAre(0, 1));
    EXPECT_EQ(held->spec.layout, nullptr);
  }
}

}  // namespace
}  // namespace pipedream
