#include "worker/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace pipedream {
namespace {

constexpr int kSteps = 5;
constexpr size_t kSize = 53;  // vector bodies and a tail
constexpr uint32_t kSeed = 7;

std::vector<std::vector<float>> Gradients() {
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::vector<float>> gradients(kSteps, std::vector<float>(kSize));
  for (auto& g : gradients) {
    for (float& v : g) v = uniform(random);
  }
  return gradients;
}
std::vector<float> InitialWeights() {
  std::vector<float> w(kSize);
  for (size_t i = 0; i < kSize; ++i) w[i] = 0.1f * static_cast<float>(i) - 2;
  return w;
}
double RateOf(int step) { return 0.05 / (1 + step); }

struct Result {
  std::vector<float> weights;
  std::vector<std::vector<float>> state;
};

Result Train(const OptimizerSpec& spec, double gradient_scale, bool in_place) {
  const auto optimizer = MakeOptimizer(spec);
  Result result{InitialWeights(), {}};
  result.state.assign(optimizer->state_tensors().size(), std::vector<float>(kSize, 0.0f));
  const auto gradients = Gradients();
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> next(kSize, std::numeric_limits<float>::quiet_NaN());
    UpdateArguments a;
    a.weights = result.weights;
    a.new_weights = in_place ? std::span<float>(result.weights) : std::span<float>(next);
    a.gradient = gradients[step];
    for (auto& s : result.state) a.state.push_back(s);
    a.learning_rate = RateOf(step);
    a.gradient_scale = gradient_scale;
    a.step = step;
    EXPECT_TRUE(optimizer->Update(a));
    if (!in_place) result.weights = next;
  }
  return result;
}

// PyTorch's documented formulas, element by element in double.
double ExpectedSgd(const OptimizerSpec& spec, double scale, double w,
                   const std::vector<double>& gradients) {
  double v = 0;
  for (int t = 0; t < kSteps; ++t) {
    const double d = gradients[t] * scale + spec.weight_decay * w;
    if (spec.momentum == 0) {
      w = w - RateOf(t) * d;
      continue;
    }
    v = t == 0 ? d : spec.momentum * v + d;
    w = w - RateOf(t) * (spec.nesterov ? d + spec.momentum * v : v);
  }
  return w;
}

double ExpectedAdam(const OptimizerSpec& spec, double scale, double w,
                    const std::vector<double>& gradients) {
  double a = 0, b = 0, power1 = 1, power2 = 1;
  for (int t = 0; t < kSteps; ++t) {
    double d = gradients[t] * scale;
    if (spec.kind == OptimizerKind::kAdamW)
      w = w * (1 - RateOf(t) * spec.weight_decay);
    else
      d = d + spec.weight_decay * w;
    a = spec.beta1 * a + (1 - spec.beta1) * d;
    b = spec.beta2 * b + (1 - spec.beta2) * d * d;
    power1 *= spec.beta1;
    power2 *= spec.beta2;
    w = w - RateOf(t) * (a / (1 - power1)) / (std::sqrt(b / (1 - power2)) + spec.epsilon);
  }
  return w;
}

struct OptimizerCase {
  std::string name;
  OptimizerSpec spec;
  double scale = 1;
};

class FiveSteps : public testing::TestWithParam<OptimizerCase> {};

TEST_P(FiveSteps, FollowTheFormulas) {
  const OptimizerCase& c = GetParam();
  const Result result = Train(c.spec, c.scale, false);
  const auto gradients = Gradients();
  const std::vector<float> initial = InitialWeights();
  for (size_t i = 0; i < kSize; ++i) {
    std::vector<double> g;
    for (const auto& step : gradients) g.push_back(step[i]);
    const double expected = c.spec.kind == OptimizerKind::kSgd
                                ? ExpectedSgd(c.spec, c.scale, initial[i], g)
                                : ExpectedAdam(c.spec, c.scale, initial[i], g);
    EXPECT_NEAR(result.weights[i], expected, 2e-6) << "element " << i << ", seed " << kSeed;
  }
}

TEST_P(FiveSteps, AreTheSameInPlace) {
  const Result apart = Train(GetParam().spec, GetParam().scale, false);
  const Result in_place = Train(GetParam().spec, GetParam().scale, true);
  EXPECT_EQ(apart.weights, in_place.weights);
  EXPECT_EQ(apart.state, in_place.state);
}

TEST_P(FiveSteps, StopAtAGradientThatIsNotFinite) {
  const auto optimizer = MakeOptimizer(GetParam().spec);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (size_t at : {size_t{0}, size_t{20}, kSize - 1}) {
      std::vector<float> w = InitialWeights(), g(kSize, 0.5f);
      g[at] = bad;
      std::vector<std::vector<float>> state(optimizer->state_tensors().size(),
                                            std::vector<float>(kSize, 0.0f));
      UpdateArguments a;
      a.weights = w;
      a.new_weights = w;
      a.gradient = g;
      for (auto& s : state) a.state.push_back(s);
      a.learning_rate = 0.1;
      EXPECT_FALSE(optimizer->Update(a)) << bad << " at " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, FiveSteps,
    testing::ValuesIn(std::vector<OptimizerCase>{
        {"Sgd", {}},
        {"SgdDecay", {.weight_decay = 0.1}},
        {"Momentum", {.momentum = 0.9}},
        {"MomentumDecayClipped", {.momentum = 0.9, .weight_decay = 0.01}, 0.3},
        {"Nesterov", {.momentum = 0.8, .nesterov = true, .weight_decay = 0.01}},
        {"Adam", {.kind = OptimizerKind::kAdam}},
        {"AdamDecayClipped", {.kind = OptimizerKind::kAdam, .weight_decay = 0.1}, 0.3},
        {"AdamOtherBetas",
         {.kind = OptimizerKind::kAdam, .beta1 = 0.5, .beta2 = 0.95, .epsilon = 1e-3}},
        {"AdamW", {.kind = OptimizerKind::kAdamW, .weight_decay = 0.1}},
    }),
    [](const auto& info) { return info.param.name; });

TEST(Optimizer, NamesItsState) {
  EXPECT_TRUE(MakeOptimizer({})->state_tensors().empty());
  EXPECT_EQ(MakeOptimizer({.momentum = 0.9})->state_tensors(),
            (std::vector<std::string>{"momentum"}));
  EXPECT_EQ(MakeOptimizer({.kind = OptimizerKind::kAdamW})->state_tensors(),
            (std::vector<std::string>{"first_moment", "second_moment"}));
}

TEST(SquaredNorm, SumsInDouble) {
  EXPECT_EQ(SquaredNorm({}), 0);
  const std::vector<float> values = {3, -4, 1e-5f};
  EXPECT_DOUBLE_EQ(SquaredNorm(values), 25 + static_cast<double>(1e-5f) * 1e-5f);
}

}  // namespace
}  // namespace pipedream
