#include "worker/engine/simulation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/engine/bit_equal.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

SimulationOptions Options(const SmallJob& job, const JobSpec& spec, std::vector<int> replicas,
                          bool evaluate = false) {
  SimulationOptions options;
  options.model = job.model();
  options.spec = spec;
  options.train = job.train();
  if (evaluate) options.evaluation = job.evaluation();
  options.run = MakeRunShape(spec, job.train()->rows(), evaluate ? job.evaluation()->rows() : 0);
  options.stage_of = job.EvenStages(static_cast<int>(replicas.size()));
  options.replicas = std::move(replicas);
  return options;
}

// Largest difference relative to the tensor's largest value.
double Distance(const Tensor& a, const Tensor& b) {
  double largest = 0, off = 0;
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a.as<float>()[i])));
    off = std::max(off, std::abs(static_cast<double>(a.as<float>()[i]) - b.as<float>()[i]));
  }
  return off / largest;
}

struct FlushCase {
  const char* schedule;
  int stages;
};
void PrintTo(const FlushCase& c, std::ostream* out) { *out << c.schedule << " on " << c.stages; }

class FlushTest : public testing::TestWithParam<FlushCase> {};

// 37 samples in minibatches of 8 and microbatches of 3: sizes 3, 3, 2 and a last minibatch of 5.
TEST_P(FlushTest, IsBitEqualToTheOneProcessRun) {
  SmallJob job;
  JobSpec spec = job.Spec();
  spec.microbatches = 3;
  spec.schedule = "1f1b";
  ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(Options(job, spec, {1})));
  spec.schedule = GetParam().schedule;
  std::vector<int> replicas(GetParam().stages, 1);
  ASSERT_OK_AND_ASSIGN(SimulationResult cut, Simulate(Options(job, spec, replicas)));
  ExpectBitEqual(whole, cut);
}

TEST_P(FlushTest, ClipsByTheNormOfTheWholeModel) {
  SmallJob job;
  JobSpec spec = job.Spec();
  spec.microbatches = 2;
  spec.optimizer.clip_norm = 0.05;
  spec.schedule = "1f1b";
  ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(Options(job, spec, {1})));
  spec.schedule = GetParam().schedule;
  std::vector<int> replicas(GetParam().stages, 1);
  ASSERT_OK_AND_ASSIGN(SimulationResult cut, Simulate(Options(job, spec, replicas)));
  ExpectBitEqual(whole, cut);
  spec.optimizer.clip_norm = 0;
  ASSERT_OK_AND_ASSIGN(SimulationResult unclipped, Simulate(Options(job, spec, replicas)));
  EXPECT_NE(unclipped.losses, cut.losses);
}

INSTANTIATE_TEST_SUITE_P(Schedules, FlushTest,
                         testing::Values(FlushCase{"1f1b", 2}, FlushCase{"1f1b", 4},
                                         FlushCase{"gpipe", 2}, FlushCase{"gpipe", 5}),
                         [](const auto& info) {
                           return std::string(info.param.schedule == std::string("gpipe")
                                                  ? "GPipe"
                                                  : "OneFOneB") +
                                  std::to_string(info.param.stages);
                         });

TEST(SimulationTest, ReplicatedFlushFollowsTheOneProcessRunUpToRounding) {
  SmallJob job;
  JobSpec spec = job.Spec();
  spec.microbatches = 4;
  spec.schedule = "1f1b";
  ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(Options(job, spec, {1})));
  ASSERT_OK_AND_ASSIGN(SimulationResult cut, Simulate(Options(job, spec, {3, 2})));
  ASSERT_EQ(whole.losses.size(), cut.losses.size());
  for (size_t i = 0; i < whole.losses.size(); ++i)
    EXPECT_NEAR(cut.losses[i] / whole.losses[i], 1, 1e-4) << i;
  // Running statistics too: replicas combine theirs in microbatch order.
  for (const auto& [name, tensor] : whole.weights)
    EXPECT_LT(Distance(tensor, cut.weights.at(name)), 1e-3) << name;
}

TEST(SimulationTest, ResultsDoNotDependOnTheInterleaving) {
  SmallJob job;
  for (std::vector<int> replicas : {std::vector<int>{1, 1, 1}, {2, 1, 2}, {3, 2}}) {
    SimulationOptions options = Options(job, job.Spec(), replicas, true);
    ASSERT_OK_AND_ASSIGN(SimulationResult first, Simulate(options));
    for (uint64_t seed = 1; seed < 4; ++seed) {
      SCOPED_TRACE(seed);
      options.interleaving = seed;
      ASSERT_OK_AND_ASSIGN(SimulationResult other, Simulate(options));
      ExpectBitEqual(first, other);
      ASSERT_EQ(first.evaluations.size(), 2u);
    }
  }
}

// An asynchronous run that goes on has newer weights in flight when it evaluates an epoch; the
// evaluation must still see those of exactly that epoch's end.
TEST(SimulationTest, EvaluationReadsTheWeightsOfItsEpochsEnd) {
  SmallJob job({.batch_norm = false});
  JobSpec spec = job.Spec();
  spec.epochs = 3;
  ASSERT_OK_AND_ASSIGN(SimulationResult longer, Simulate(Options(job, spec, {1, 1, 1}, true)));
  spec.epochs = 1;
  ASSERT_OK_AND_ASSIGN(SimulationResult shorter, Simulate(Options(job, spec, {1, 1, 1}, true)));
  ASSERT_EQ(longer.evaluations.size(), 3u);
  EXPECT_EQ(longer.evaluations[0].loss_sum, shorter.evaluations[0].loss_sum);
  EXPECT_EQ(longer.evaluations[0].correct, shorter.evaluations[0].correct);
  EXPECT_EQ(longer.evaluations[0].positions, 11);
  EXPECT_NE(longer.evaluations[2].loss_sum, longer.evaluations[0].loss_sum);
}

TEST(SimulationTest, FewerMicrobatchesThanStagesWork) {
  SmallJob job;
  JobSpec spec = job.Spec();
  spec.batch_size = 37;
  spec.epochs = 2;
  EXPECT_OK(Simulate(Options(job, spec, {1, 1, 1, 1, 1})));
}

TEST(SimulationTest, ANonFiniteLossStopsTheRunAndNamesTheStage) {
  SmallJob job;
  JobSpec spec = job.Spec();
  spec.learning_rate.base = 1e30;
  auto result = Simulate(Options(job, spec, {1, 1}));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(ReasonOf(result.status()), HasSubstr("NON_FINITE"));
  EXPECT_THAT(result.status().ToString(), HasSubstr("stage "));
}

TEST(SimulationTest, TrainingLowersTheLoss) {
  SmallJob job({.dropout = false});
  JobSpec spec = job.Spec();
  spec.epochs = 30;
  ASSERT_OK_AND_ASSIGN(SimulationResult result, Simulate(Options(job, spec, {1, 1, 1})));
  ASSERT_EQ(result.losses.size(), 150u);
  double first = 0, last = 0;  // epochs of five minibatches
  for (int i = 0; i < 5; ++i) {
    first += result.losses[i];
    last += result.losses[145 + i];
  }
  EXPECT_LT(last, 0.5 * first);
}

TEST(SimulationTest, StashedWeightsDifferFromPlainTraining) {
  SmallJob job;
  JobSpec spec = job.Spec();
  ASSERT_OK_AND_ASSIGN(SimulationResult stale, Simulate(Options(job, spec, {1, 1, 1})));
  spec.schedule = "1f1b";
  ASSERT_OK_AND_ASSIGN(SimulationResult plain, Simulate(Options(job, spec, {1, 1, 1})));
  EXPECT_EQ(stale.losses[0], plain.losses[0]);
  EXPECT_NE(stale.losses, plain.losses);
}

}  // namespace
}  // namespace pipedream
