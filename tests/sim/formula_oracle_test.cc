// The oracle checked by itself: gradients by differences, small cases by hand.
#include "tests/support/formula_oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

constexpr uint32_t kSeed = 3;

std::vector<double> Random(std::mt19937& random, int64_t count) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> out(count);
  for (double& v : out) v = uniform(random);
  return out;
}

// Three layers in two stages on seven rows of four inputs; one unit of all rows, one update of
// plain SGD at rate 1, so that old less new weights are the gradient.
FormulaRun OneStep(FormulaLoss loss, FormulaActivation activation) {
  std::mt19937 random(kSeed);
  const std::vector<int64_t> sizes = {4, 5, 6, 3};
  const int64_t rows = 7;
  FormulaRun run;
  for (size_t l = 0; l + 1 < sizes.size(); ++l)
    run.layers.push_back({sizes[l],
                          sizes[l + 1],
                          l == 2 ? FormulaActivation::kNone : activation,
                          l < 1 ? 0 : 1,
                          {Random(random, sizes[l] * sizes[l + 1]), Random(random, sizes[l + 1])}});
  run.loss = loss;
  run.data.x = Random(random, rows * sizes[0]);
  run.data.targets = Random(random, rows * sizes[3]);
  for (int64_t i = 0; i < rows; ++i) run.data.labels.push_back(random() % 3);
  run.units = {{0, 1, 2, 3, 4, 5, 6}};
  run.updates = {{{0, 1}}, {{0, 1}}};
  run.forward_version = [](int, int64_t) { return 0; };
  run.learning_rate = [](int, int64_t) { return 1.0; };
  return run;
}

// Linear, one number wide: y = w1 w0 x against target 0, so with h = w0 x and loss y^2
// dw1 = 2 y h, dw0 = 2 y w1 x; biases are 0 at first and have gradients 2 y and 2 y w1.
FormulaRun TwoNumbers(double w0, double w1, double x, int64_t units) {
  FormulaRun run;
  run.layers = {{1, 1, FormulaActivation::kNone, 0, {{w0}, {0}}},
                {1, 1, FormulaActivation::kNone, 1, {{w1}, {0}}}};
  run.loss = FormulaLoss::kMse;
  run.data.x = {x};
  run.data.targets = {0};
  run.units.assign(units, {0});
  run.updates.resize(2);
  for (int64_t u = 0; u < units; ++u)
    for (auto& updates : run.updates) updates.push_back({u, 1});
  run.forward_version = [](int, int64_t u) { return u; };
  run.learning_rate = [](int, int64_t) { return 0.125; };
  return run;
}

struct GradientCase {
  const char* name;
  FormulaLoss loss;
  FormulaActivation activation;
};

class FormulaGradientTest : public testing::TestWithParam<GradientCase> {};

TEST_P(FormulaGradientTest, IsTheSlopeOfTheLoss) {
  const FormulaRun run = OneStep(GetParam().loss, GetParam().activation);
  ASSERT_OK_AND_ASSIGN(FormulaResult result, TrainByFormula(run));
  constexpr double kStep = 1e-5;
  std::vector<FormulaWeights> weights;
  for (const FormulaLayer& layer : run.layers) weights.push_back(layer.initial);
  auto loss = [&] {
    return FormulaLossOfRows(run.layers, weights, run.loss, run.data, run.units[0]);
  };
  EXPECT_DOUBLE_EQ(result.losses[0], loss());
  for (size_t l = 0; l < weights.size(); ++l) {
    for (auto tensor : {&FormulaWeights::weight, &FormulaWeights::bias}) {
      for (size_t i = 0; i < (weights[l].*tensor).size(); ++i) {
        double& w = (weights[l].*tensor)[i];
        const double at = w;
        w = at + kStep;
        const double above = loss();
        w = at - kStep;
        const double below = loss();
        w = at;
        const double gradient = at - (result.versions[l][1].*tensor)[i];
        EXPECT_NEAR(gradient, (above - below) / (2 * kStep), 1e-8)
            << "layer " << l << " element " << i << ", seed " << kSeed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FormulaGradientTest,
    testing::Values(GradientCase{"CrossEntropyTanh", FormulaLoss::kCrossEntropy,
                                 FormulaActivation::kTanh},
                    GradientCase{"MseTanh", FormulaLoss::kMse, FormulaActivation::kTanh},
                    GradientCase{"MseRelu", FormulaLoss::kMse, FormulaActivation::kRelu},
                    GradientCase{"CrossEntropySigmoid", FormulaLoss::kCrossEntropy,
                                 FormulaActivation::kSigmoid}),
    [](const auto& info) { return info.param.name; });

TEST(FormulaOracleTest, UnitsOfAnUpdateCountByTheirRows) {
  FormulaRun whole = OneStep(FormulaLoss::kCrossEntropy, FormulaActivation::kTanh);
  FormulaRun split = whole;
  split.units = {{0, 1, 2, 3}, {4, 5}, {}, {6}};
  split.updates = {{{0, 4}}, {{0, 4}}};
  ASSERT_OK_AND_ASSIGN(FormulaResult a, TrainByFormula(whole));
  ASSERT_OK_AND_ASSIGN(FormulaResult b, TrainByFormula(split));
  for (size_t l = 0; l < whole.layers.size(); ++l)
    for (size_t i = 0; i < a.versions[l][1].weight.size(); ++i)
      EXPECT_NEAR(a.versions[l][1].weight[i], b.versions[l][1].weight[i], 1e-14);
  EXPECT_NEAR(a.losses[0], (4 * b.losses[0] + 2 * b.losses[1] + b.losses[3]) / 7, 1e-14);
  EXPECT_EQ(b.losses[2], 0);
}

TEST(FormulaOracleTest, AnUpdateWithoutRowsCopiesTheVersion) {
  FormulaRun run = TwoNumbers(1, 2, 1, 2);
  run.units[1].clear();
  run.optimizer.weight_decay = 0.5;
  ASSERT_OK_AND_ASSIGN(FormulaResult result, TrainByFormula(run));
  ASSERT_EQ(result.versions[0].size(), 3u);
  EXPECT_EQ(result.versions[0][1].weight, result.versions[0][2].weight);
  EXPECT_NE(result.versions[0][0].weight, result.versions[0][1].weight);
}

// Stage 1 reads version 0 twice: its second gradient is applied to version 1 all the same.
TEST(FormulaOracleTest, AppliesOldGradientsToTheNewestWeights) {
  FormulaRun run = TwoNumbers(1, 2, 1, 2);
  run.forward_version = [](int, int64_t) { return 0; };
  ASSERT_OK_AND_ASSIGN(FormulaResult result, TrainByFormula(run));
  // y = 2, h = 1: dw1 = 4, dw0 = 8; at rate 1/8 each update takes 0.5 and 1.
  EXPECT_EQ(result.versions[0][2].weight[0], 1 - 2 * 1.0);
  EXPECT_EQ(result.versions[1][2].weight[0], 2 - 2 * 0.5);
  EXPECT_EQ(result.losses[1], 4);
}

// Forward of unit 1 with versions 0, its backward with versions 1: activations of the forward, the
// gradient by h through the newer w1.
TEST(FormulaOracleTest, BackwardMayReadOtherWeightsThanForward) {
  FormulaRun run = TwoNumbers(1, 2, 1, 2);
  run.forward_version = [](int, int64_t) { return 0; };
  run.backward_version = [](int, int64_t u) { return u; };
  ASSERT_OK_AND_ASSIGN(FormulaResult result, TrainByFormula(run));
  // w1 of version 1 is 1.5, so dw0 = 2 y w1 x = 6 and dw1 = 2 y h = 4 as before.
  EXPECT_EQ(result.versions[0][2].weight[0], 1 - 1 - 6 / 8.0);
  EXPECT_EQ(result.versions[1][2].weight[0], 2 - 2 * 0.5);
}

TEST(FormulaOracleTest, ClipsByTheNormOfAllStages) {
  FormulaRun run = TwoNumbers(1, 2, 1, 1);
  run.optimizer.clip_norm = 0.5;
  ASSERT_OK_AND_ASSIGN(FormulaResult result, TrainByFormula(run));
  // Gradients 8 and 4 of the weights, 8 and 4 of the biases.
  const double scale = 0.5 / (std::sqrt(160.0) + 1e-6);
  EXPECT_DOUBLE_EQ(result.versions[0][1].weight[0], 1 - scale * 8 / 8);
  EXPECT_DOUBLE_EQ(result.versions[1][1].bias[0], -scale * 4 / 8);
  run.optimizer.clip_norm = 13;
  ASSERT_OK_AND_ASSIGN(FormulaResult unclipped, TrainByFormula(run));
  EXPECT_EQ(unclipped.versions[0][1].weight[0], 0);
}

TEST(FormulaOracleTest, ClipsByAnEarlierNormWhereAsked) {
  FormulaRun run = TwoNumbers(1, 2, 1, 2);
  run.forward_version = [](int, int64_t) { return 0; };
  run.optimizer.clip_norm = 0.5;
  run.norm_of = [](int stage, int64_t k) { return stage == 0 ? k - 1 : k; };
  ASSERT_OK_AND_ASSIGN(FormulaResult result, TrainByFormula(run));
  const double scale = 0.5 / (std::sqrt(160.0) + 1e-6);
  EXPECT_EQ(result.versions[0][1].weight[0], 0);  // there is no update -1
  EXPECT_DOUBLE_EQ(result.versions[0][2].weight[0], -scale);
  EXPECT_DOUBLE_EQ(result.versions[1][1].weight[0], 2 - scale / 2);
}

// Stage 0 makes one update where stage 1 makes two; the norm takes the second of them.
TEST(FormulaOracleTest, ANormMayBeOfUpdatesThatDiffer) {
  FormulaRun run = TwoNumbers(1, 2, 1, 2);
  run.updates[0] = {{0, 2}};
  run.forward_version = [](int, int64_t) { return 0; };
  run.optimizer.clip_norm = 0.5;
  run.norm_update = [](int stage, int64_t) { return stage; };
  run.norm_of = [](int stage, int64_t k) { return k < stage ? -1 : 0; };
  ASSERT_OK_AND_ASSIGN(FormulaResult result, TrainByFormula(run));
  const double scale = 0.5 / (std::sqrt(160.0) + 1e-6);
  EXPECT_DOUBLE_EQ(result.versions[0][1].weight[0], 1 - scale);
  EXPECT_EQ(result.versions[1][1].weight[0], 2 - 0.5);
  EXPECT_DOUBLE_EQ(result.versions[1][2].weight[0], 2 - 0.5 - scale / 2);
}

// An infinite x saturates the first layer: its weight's gradient is 0 times infinity, the second
// layer's gradient is finite.
TEST(FormulaOracleTest, SkipsWhatIsNotFinite) {
  FormulaRun run = TwoNumbers(1, 2, 1, 2);
  run.layers[0].activation = FormulaActivation::kTanh;
  run.data.x = {std::numeric_limits<double>::infinity(), 0};
  run.data.targets = {0, 0};
  run.units = {{0}, {1}};
  ASSERT_OK_AND_ASSIGN(FormulaResult result, TrainByFormula(run));
  EXPECT_TRUE(std::isnan(result.versions[0][1].weight[0]));
  run.skip = FormulaRun::Skip::kInThatStage;
  ASSERT_OK_AND_ASSIGN(result, TrainByFormula(run));
  EXPECT_EQ(result.versions[0][1].weight[0], 1);
  EXPECT_EQ(result.versions[1][1].weight[0], 2 - 4.0 / 8);  // y = 2, h = 1
  run.skip = FormulaRun::Skip::kInAllStages;
  run.optimizer.kind = FormulaOptimizer::Kind::kAdam;
  run.optimizer.epsilon = 0;
  ASSERT_OK_AND_ASSIGN(result, TrainByFormula(run));
  EXPECT_EQ(result.versions[0][1].weight[0], 1);
  EXPECT_EQ(result.versions[1][1].weight[0], 2);
  run.data.x[1] = 1;
  ASSERT_OK_AND_ASSIGN(result, TrainByFormula(run));
  // The first step that Adam sees is as long as the rate, whatever the gradient.
  EXPECT_DOUBLE_EQ(result.versions[1][2].weight[0], 2 - 0.125);
}

// Every gradient is taken at version 0: that of w0 is 8.
TEST(FormulaOracleTest, OptimizersFollowTheirFormulas) {
  FormulaRun run = TwoNumbers(1, 2, 1, 2);
  run.forward_version = [](int, int64_t) { return 0; };
  run.optimizer.weight_decay = 0.5;
  run.optimizer.momentum = 0.5;
  auto w0 = [&](int version) {
    auto result = TrainByFormula(run);
    EXPECT_OK(result);
    return result.ok() ? result->versions[0][version].weight[0] : NAN;
  };
  // d = 8.5 at w = 1; then v = 8.5.
  EXPECT_DOUBLE_EQ(w0(1), 1 - 8.5 / 8);
  // w = -0.0625: d = 7.96875, v = 4.25 + d.
  EXPECT_DOUBLE_EQ(w0(2), -0.0625 - (4.25 + 7.96875) / 8);
  run.optimizer.nesterov = true;
  EXPECT_DOUBLE_EQ(w0(1), 1 - (8.5 + 4.25) / 8);
  // At t = 1 the corrected moments are d and d * d, whatever the betas.
  run.optimizer.kind = FormulaOptimizer::Kind::kAdam;
  run.optimizer.epsilon = 0.5;
  EXPECT_DOUBLE_EQ(w0(1), 1 - 8.5 / (8.5 + 0.5) / 8);
  run.optimizer.kind = FormulaOptimizer::Kind::kAdamW;
  EXPECT_DOUBLE_EQ(w0(1), 1 * (1 - 0.5 / 8) - 8 / (8 + 0.5) / 8);
  // The same gradient again: corrected moments stay what they are.
  EXPECT_NEAR(w0(2), w0(1) * (1 - 0.5 / 8) - 8 / (8 + 0.5) / 8, 1e-14);
}

TEST(FormulaOracleTest, RefusesWhatCannotBe) {
  FormulaRun run = TwoNumbers(1, 2, 1, 2);
  run.forward_version = [](int stage, int64_t u) { return u + stage; };
  EXPECT_THAT(TrainByFormula(run),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stage 1: unit 0 reads version 1, the newest is 0")));
  run = TwoNumbers(1, 2, 1, 2);
  run.updates[1].pop_back();
  EXPECT_THAT(TrainByFormula(run), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("stage 1: unit 1 is in no update")));
  run.updates[1] = {{0, 2}, {1, 1}};
  EXPECT_THAT(TrainByFormula(run),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stage 1 update 1: unit 1")));
  run.updates[1] = {{0, 2}};
  run.optimizer.clip_norm = 1;
  EXPECT_THAT(TrainByFormula(run), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("clipping needs the same updates")));
  run = TwoNumbers(1, 2, 1, 1);
  run.units[0] = {1};
  EXPECT_THAT(TrainByFormula(run),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unit 0: row 1 of 1")));
}

}  // namespace
}  // namespace pipedream
