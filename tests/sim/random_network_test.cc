// Random networks in random cuts under every schedule, where what must come out is what the uncut
// network gives: skip connections across stages, stages beside each other, several heads, shared
// parameters.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "common/job/stage_flow.h"
#include "tests/sim/random_pipeline.h"
#include "tests/sim/schedule_policies.h"
#include "tests/support/random_network.h"
#include "tests/support/status_matchers.h"
#include "worker/engine/simulation.h"

namespace pipedream {
namespace {

constexpr int kNetworkDraws = 30;
// Where stages share a parameter, each adds up its own gradients over the minibatch and the sums
// are added afterwards; one stage adds up all of a microbatch first. Both are right to rounding: a
// few units of 2^-24 relative to the largest terms, which the following updates carry on.
constexpr double kSharedTolerance = 2e-5;

struct NetworkDraw {
  RandomNetworkOptions data;
  JobSpec spec;
  std::vector<int> stage_of;
  DrawnPipeline pipeline;
};

// Stages on a device that the policy takes for so many stages; 0: none.
int DrawChunks(const SchedulePolicy& policy, int stages, RandomSource* random) {
  std::vector<int> fitting;
  for (int c = policy.least_chunks; c <= policy.most_chunks; ++c)
    if (stages % c == 0) fitting.push_back(c);
  return fitting.empty() ? 0 : fitting[random->Next() % fitting.size()];
}

class NetworkTest : public testing::TestWithParam<SchedulePolicy> {
 protected:
  NetworkDraw Draw(uint32_t seed, bool replicated, bool shared) {
    RandomSource random(seed);
    NetworkDraw draw;
    draw.data.seed = seed;
    draw.data.shares_parameters = shared;
    draw.data.train_samples = random.Between(9, 24);
    draw.data.evaluation_samples = random.Between(1, 9);
    JobSpec& spec = draw.spec;
    spec.schedule = GetParam().schedule;
    spec.seed = seed;
    spec.epochs = random.Between(1, 2);
    spec.learning_rate.base = 0.002;  // no training may blow up and differences with it
    if (!shared && random.Chance(2)) {
      spec.optimizer.kind = OptimizerKind::kAdamW;
      spec.learning_rate.base = 0.0005;
    } else {
      spec.optimizer.momentum = 0.5;
    }
    if (random.Chance(2)) spec.optimizer.clip_norm = 0.5;
    network_.emplace(draw.data);
    spec.loss = network_->loss();
    auto training = BindTraining(*network_->model(), spec, 2);
    EXPECT_OK(training);
    int chunks = 0;
    while (chunks == 0) {
      draw.stage_of = RandomCut(
          *training, random.Between(std::min(2, GetParam().most_stages), GetParam().most_stages),
          &random);
      stages_ = 1 + *std::max_element(draw.stage_of.begin(), draw.stage_of.end());
      chunks = DrawChunks(GetParam(), stages_, &random);
    }
    draw.pipeline = DrawPipeline(GetParam(), stages_, chunks, replicated, &random);
    const int least = GetParam().least_microbatches == nullptr
                          ? 1
                          : static_cast<int>(GetParam().least_microbatches(draw.pipeline));
    spec.microbatches = GetParam().microbatches ? random.Between(least, least + 3) : 1;
    spec.batch_size = random.Between(spec.microbatches, 2 * spec.microbatches + 3);
    draw.data.train_samples = std::max(draw.data.train_samples, spec.batch_size);
    text_ = fmt::format(
        "PIPEDREAM_TEST_SEED={}: {}in stages {}, {} replicas, devices {}, warm-up {}, {} samples "
        "in {} x {}, {} epochs, clip {}",
        seed, network_->text(), fmt::join(draw.stage_of, ","),
        fmt::join(draw.pipeline.replicas, ","), fmt::join(draw.pipeline.device_of, ","),
        fmt::join(draw.pipeline.warmup, ","), draw.data.train_samples, spec.batch_size,
        spec.microbatches, spec.epochs, spec.optimizer.clip_norm);
    // The data has to last for a minibatch.
    if (draw.data.train_samples > network_->train()->rows()) network_.emplace(draw.data);
    return draw;
  }

  SimulationOptions OptionsOf(const NetworkDraw& draw) const {
    SimulationOptions options;
    options.model = network_->model();
    options.spec = draw.spec;
    options.train = network_->train();
    options.evaluation = network_->evaluation();
    options.run =
        MakeRunShape(draw.spec, network_->train()->rows(), network_->evaluation()->rows());
    options.stage_of = draw.stage_of;
    options.replicas = draw.pipeline.replicas;
    options.warmup = draw.pipeline.warmup;
    options.device_of = draw.pipeline.device_of;
    return options;
  }

  // The uncut network: plain training, or the version of the minibatch before.
  SimulationOptions WholeOf(const NetworkDraw& draw) const {
    SimulationOptions options = OptionsOf(draw);
    options.stage_of.assign(draw.stage_of.size(), 0);
    options.replicas = {1};
    options.warmup.clear();
    options.device_of.clear();
    if (GetParam().synchronous) options.spec.schedule = "1f1b";
    return options;
  }

  // Running statistics have no versions: where nothing drains, a stage may have forwarded
  // microbatches of the next epoch when it evaluates, how many depends on the cut.
  size_t FirstComparedEvaluation(const NetworkDraw& draw) const {
    const bool statistics = network_->text().find("norm") != std::string::npos;
    return statistics && !GetParam().synchronous ? draw.spec.epochs - 1 : 0;
  }

  std::optional<RandomNetwork> network_;
  int stages_ = 1;
  std::string text_;
};

void ExpectSameBits(const SimulationResult& a, const SimulationResult& b,
                    size_t first_evaluation = 0) {
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, tensor] : a.weights)
    EXPECT_TRUE(std::ranges::equal(tensor.bytes(), b.weights.at(name).bytes())) << name;
  ASSERT_EQ(a.evaluations.size(), b.evaluations.size());
  for (size_t e = first_evaluation; e < a.evaluations.size(); ++e)
    EXPECT_EQ(a.evaluations[e].loss_sum, b.evaluations[e].loss_sum) << "epoch " << e;
}

void ExpectNear(const SimulationResult& a, const SimulationResult& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t t = 0; t < a.losses.size(); ++t)
    EXPECT_NEAR(a.losses[t] / b.losses[t], 1, tolerance) << "minibatch " << t;
  for (const auto& [name, tensor] : a.weights) {
    const auto found = tensor.as<float>(), expected = b.weights.at(name).as<float>();
    double largest = 0, off = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
      off = std::max(off, std::abs(static_cast<double>(found[i]) - expected[i]));
    }
    EXPECT_LE(off, tolerance * largest) << name;
  }
}

// Of the schedules in which all stages read the same version.
using UniformNetworkTest = NetworkTest;

TEST_P(UniformNetworkTest, ACutIsBitEqualToTheWhole) {
  for (uint32_t seed : TestSeeds(kNetworkDraws)) {
    const NetworkDraw draw = Draw(seed, false, false);
    SCOPED_TRACE(text_);
    ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(WholeOf(draw)));
    SimulationOptions options = OptionsOf(draw);
    options.interleaving = seed;
    ASSERT_OK_AND_ASSIGN(SimulationResult cut, Simulate(options));
    ExpectSameBits(cut, whole, FirstComparedEvaluation(draw));
    if (HasFailure()) return;
  }
}

// Copies are equal to the bit among each other: Simulate checks it.
TEST_P(UniformNetworkTest, SharedParametersTrainAsOne) {
  int shared = 0;
  const std::vector<uint32_t> seeds = TestSeeds(kNetworkDraws);
  for (uint32_t seed : seeds) {
    const NetworkDraw draw = Draw(seed, false, true);
    SCOPED_TRACE(text_);
    ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(WholeOf(draw)));
    const SimulationOptions options = OptionsOf(draw);
    ASSERT_OK_AND_ASSIGN(const ScheduleShape shape, ShapeOf(options));
    ASSERT_OK_AND_ASSIGN(SimulationResult cut, Simulate(options));
    if (shape.tied_stages.empty()) {
      ExpectSameBits(cut, whole, FirstComparedEvaluation(draw));
    } else {
      ++shared;
      ExpectNear(cut, whole, kSharedTolerance);
    }
    if (HasFailure()) return;
  }
  if (GetParam().most_stages > 1 && seeds.size() > 1) {
    EXPECT_GE(shared, std::ssize(seeds) / 4) << "draws in which stages share parameters";
  }
}

// With replicas, too: the order in which workers get their turn, and what is kept or computed
// again, never change a bit. (But with a single weight copy: what is computed again is computed
// with the weights of the backward, not of the forward.)
TEST_P(NetworkTest, OrderAndRecomputationChangeNothing) {
  for (uint32_t seed : TestSeeds(kNetworkDraws)) {
    const NetworkDraw draw = Draw(seed, true, false);
    SCOPED_TRACE(text_);
    SimulationOptions options = OptionsOf(draw);
    ASSERT_OK_AND_ASSIGN(SimulationResult first, Simulate(options));
    options.interleaving = seed;
    options.recompute.enabled = std::string_view(GetParam().schedule) != "paci";
    RandomSource random(seed);
    for (size_t n = 0; n < draw.stage_of.size(); ++n)
      if (random.Chance(3)) options.recompute.checkpoints.push_back(NodeId(static_cast<int>(n)));
    ASSERT_OK_AND_ASSIGN(SimulationResult second, Simulate(options));
    ExpectSameBits(first, second);
    if (HasFailure()) return;
  }
}

std::vector<SchedulePolicy> Uniform() {
  std::vector<SchedulePolicy> out;
  for (const SchedulePolicy& policy : kSchedulePolicies)
    if (policy.synchronous || std::string(policy.schedule) == "2bw") out.push_back(policy);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, NetworkTest, testing::ValuesIn(kSchedulePolicies), NameOfPolicy);
INSTANTIATE_TEST_SUITE_P(All, UniformNetworkTest, testing::ValuesIn(Uniform()), NameOfPolicy);

}  // namespace
}  // namespace pipedream
