// Random jobs under every schedule: which weights each microbatch sees, what an update covers and
// what comes out must be as the schedule's formulas say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "tests/sim/random_job.h"
#include "tests/sim/schedule_policies.h"
#include "tests/support/formula_models.h"
#include "tests/support/formula_oracle.h"
#include "tests/support/status_matchers.h"
#include "worker/engine/simulation.h"

namespace pipedream {
namespace {

constexpr int kPipelineDraws = 60;
constexpr double kFormulaLossTolerance = 1e-5;    // relative
constexpr double kFormulaWeightTolerance = 1e-4;  // of the tensor's largest

// Mean over the samples of each minibatch. Microbatches whose loss is not finite do not count;
// without any that does, a minibatch has no loss.
std::vector<double> MinibatchLosses(const FormulaRun& run, const FormulaResult& result,
                                    int64_t microbatches) {
  std::vector<double> losses;
  for (size_t first = 0; first < run.units.size(); first += microbatches) {
    double sum = 0, rows = 0;
    for (size_t u = first; u < first + microbatches; ++u) {
      if (!std::isfinite(result.losses[u])) continue;
      sum += result.losses[u] * static_cast<double>(run.units[u].size());
      rows += static_cast<double>(run.units[u].size());
    }
    if (rows > 0) losses.push_back(sum / rows);
  }
  return losses;
}

void ExpectTensor(const Tensor& found, const std::vector<double>& expected,
                  const std::string& name) {
  auto values = found.as<float>();
  ASSERT_EQ(values.size(), expected.size()) << name;
  double largest = 0, off = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    off = std::max(off, std::abs(values[i] - expected[i]));
  }
  EXPECT_LE(off, kFormulaWeightTolerance * largest) << name;
}

void ExpectFollowsFormula(const SimulationResult& found, const FormulaRun& run,
                          const FormulaResult& expected, int64_t microbatches) {
  const std::vector<double> losses = MinibatchLosses(run, expected, microbatches);
  ASSERT_EQ(found.losses.size(), losses.size());
  for (size_t t = 0; t < losses.size(); ++t)
    EXPECT_NEAR(found.losses[t] / losses[t], 1, kFormulaLossTolerance) << "minibatch " << t;
  for (size_t l = 0; l < run.layers.size(); ++l) {
    const int layer = static_cast<int>(l);
    const FormulaWeights& last = expected.versions[l].back();
    ExpectTensor(found.weights.at(FormulaWeightName(layer)), last.weight, FormulaWeightName(layer));
    ExpectTensor(found.weights.at(FormulaBiasName(layer)), last.bias, FormulaBiasName(layer));
  }
}

// Each epoch's evaluation reads the updates whose units are all of that epoch or earlier ones.
void ExpectEvaluates(const SimulationResult& found, const RandomJob& draw, const FormulaJob& job,
                     const FormulaRun& run, const FormulaResult& expected) {
  ASSERT_EQ(std::ssize(found.evaluations), draw.spec.epochs);
  const int64_t units = std::ssize(run.units);
  std::vector<int64_t> rows(job.evaluation()->rows());
  std::iota(rows.begin(), rows.end(), 0);
  for (int64_t epoch = 0; epoch < draw.spec.epochs; ++epoch) {
    std::vector<FormulaWeights> weights;
    for (size_t l = 0; l < run.layers.size(); ++l) {
      const auto& updates = run.updates[run.layers[l].stage];
      const int64_t end = (epoch + 1) * units / draw.spec.epochs;
      const auto made = std::ranges::count_if(updates, [&](const FormulaUpdate& update) {
        return update.first_unit + update.units <= end;
      });
      weights.push_back(expected.versions[l][made]);
    }
    const double loss =
        FormulaLossOfRows(run.layers, weights, run.loss, job.evaluation_data(), rows);
    const EvaluationSum& sum = found.evaluations[epoch];
    EXPECT_EQ(sum.samples, std::ssize(rows));
    EXPECT_NEAR(sum.loss_sum / static_cast<double>(sum.samples) / loss, 1,
                2 * kFormulaLossTolerance)
        << "epoch " << epoch;
  }
}

class SchedulePolicyTest : public testing::TestWithParam<SchedulePolicy> {};

TEST_P(SchedulePolicyTest, FollowsItsFormula) {
  for (uint32_t seed : TestSeeds(kPipelineDraws)) {
    const RandomJob draw = RandomJobMaker(GetParam(), seed).Make(true);
    SCOPED_TRACE(fmt::format("PIPEDREAM_TEST_SEED={}: {}", seed, draw.ToString()));
    FormulaJob job(draw.data);
    ASSERT_OK_AND_ASSIGN(SimulationResult found, Simulate(OptionsOf(draw, job)));
    const FormulaRun run = FormulaOf(draw, GetParam(), job);
    ASSERT_OK_AND_ASSIGN(FormulaResult expected, TrainByFormula(run));
    ExpectFollowsFormula(found, run, expected, draw.spec.microbatches);
    if (draw.evaluate) ExpectEvaluates(found, draw, job, run, expected);
    if (HasFailure()) return;  // the others would only add noise
  }
}

using SynchronousPolicyTest = SchedulePolicyTest;

TEST_P(SynchronousPolicyTest, IsBitEqualToTheOneStageRun) {
  for (uint32_t seed : TestSeeds(kPipelineDraws)) {
    const RandomJob draw = RandomJobMaker(GetParam(), seed).Make(false);
    SCOPED_TRACE(fmt::format("PIPEDREAM_TEST_SEED={}: {}", seed, draw.ToString()));
    FormulaJob job(draw.data);
    RandomJob whole = draw;
    whole.spec.schedule = "1f1b";
    whole.pipeline.replicas = {1};
    whole.pipeline.device_of.clear();
    whole.pipeline.warmup.clear();
    whole.layer_stage.assign(draw.layer_stage.size(), 0);
    ASSERT_OK_AND_ASSIGN(SimulationResult cut, Simulate(OptionsOf(draw, job)));
    ASSERT_OK_AND_ASSIGN(SimulationResult one, Simulate(OptionsOf(whole, job)));
    EXPECT_EQ(cut.losses, one.losses);
    ASSERT_EQ(cut.weights.size(), one.weights.size());
    for (const auto& [name, tensor] : one.weights)
      EXPECT_TRUE(std::ranges::equal(tensor.bytes(), cut.weights.at(name).bytes())) << name;
    ASSERT_EQ(cut.evaluations.size(), one.evaluations.size());
    for (size_t e = 0; e < one.evaluations.size(); ++e)
      EXPECT_EQ(cut.evaluations[e].loss_sum, one.evaluations[e].loss_sum) << "epoch " << e;
    if (HasFailure()) return;
  }
}

std::vector<SchedulePolicy> Synchronous() {
  std::vector<SchedulePolicy> out;
  std::ranges::copy_if(kSchedulePolicies, std::back_inserter(out), &SchedulePolicy::synchronous);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, SchedulePolicyTest, testing::ValuesIn(kSchedulePolicies),
                         NameOfPolicy);
INSTANTIATE_TEST_SUITE_P(All, SynchronousPolicyTest, testing::ValuesIn(Synchronous()),
                         NameOfPolicy);

}  // namespace
}  // namespace pipedream
