// Updates made before the whole model's norm is known: confirmed, or taken back and made anew with
// the forwards that ran since. What comes out must be what waiting for the norm gives, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/graph/training_graph.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/engine/bit_equal.h"

namespace pipedream {
namespace {

struct Layout {
  const char* schedule;
  std::vector<int> replicas;
  std::vector<int> device_of;
};

SimulationOptions Options(const SmallJob& job, const JobSpec& spec, const Layout& layout) {
  SimulationOptions options;
  options.model = job.model();
  options.spec = spec;
  options.spec.schedule = layout.schedule;
  options.train = job.train();
  options.evaluation = job.evaluation();
  options.run = MakeRunShape(spec, job.train()->rows(), job.evaluation()->rows());
  options.replicas = layout.replicas;
  options.device_of = layout.device_of;
  auto forward = options.model->Bind({2, GraphForm::kTraining, {}, {}});
  EXPECT_OK(forward);
  auto training = MakeTrainingGraph(*forward, spec.loss);
  EXPECT_OK(training);
  const int nodes = training->forward_nodes;
  const int stages = static_cast<int>(layout.replicas.size());
  for (int n = 0; n < nodes; ++n) {
    const bool stays = training->graph.node(NodeId(n)).op == "BatchNormalization";
    options.stage_of.push_back(stays && n > 0 ? options.stage_of.back() : n * stages / nodes);
  }
  return options;
}

// Of every version, not only of the last: what was taken back has left no trace.
void ExpectSameDigests(const SimulationResult& a, const SimulationResult& b) {
  ASSERT_EQ(a.ledger.stages.size(), b.ledger.stages.size());
  for (size_t i = 0; i < a.ledger.stages.size(); ++i)
    EXPECT_EQ(a.ledger.stages[i].digests, b.ledger.stages[i].digests);
}

class SpeculationTest : public testing::TestWithParam<Layout> {
 protected:
  SpeculationTest() : spec_(job_.Spec()) {
    spec_.microbatches = 3;
    spec_.epochs = 2;
  }
  // The same stages, waiting for the norm.
  Layout Waiting() const { return {"1f1b", GetParam().replicas, {}}; }
  SmallJob job_;
  JobSpec spec_;
};

TEST_P(SpeculationTest, EqualsWaitingForTheNorm) {
  bool some_undone = false, some_held = false;
  for (OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam}) {
    spec_.optimizer = job_.Spec().optimizer;
    if (kind == OptimizerKind::kAdam) {
      spec_.optimizer = OptimizerSpec{};
      spec_.optimizer.kind = kind;
    }
    for (double clip : {1e-3, 0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 1e6}) {
      SCOPED_TRACE(clip);
      spec_.optimizer.clip_norm = clip;
      ASSERT_OK_AND_ASSIGN(SimulationResult waited, Simulate(Options(job_, spec_, Waiting())));
      SimulationOptions options = Options(job_, spec_, GetParam());
      for (uint64_t seed : {1, 2}) {
        options.interleaving = seed;
        ASSERT_OK_AND_ASSIGN(SimulationResult speculated, Simulate(options));
        ExpectBitEqual(waited, speculated);
        ExpectSameDigests(waited, speculated);
        some_undone |= speculated.undone_updates > 0;
        some_held |= speculated.undone_updates == 0;
        if (clip == 1e6) {
          EXPECT_EQ(speculated.undone_updates, 0);
        }
      }
    }
  }
  EXPECT_TRUE(some_undone);
  EXPECT_TRUE(some_held);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SpeculationTest,
    testing::Values(Layout{"zb_h1", {1, 1, 1}, {}}, Layout{"zb_h2", {1, 1, 1}, {}},
                    Layout{"zb_h2", {1, 2}, {}}, Layout{"zb_v", {1, 1, 1, 1}, {0, 1, 1, 0}},
                    Layout{"zb_v", {2, 2}, {0, 0}}),
    [](const auto& info) {
      return info.param.schedule + std::string("_") + std::to_string(info.index);
    });

}  // namespace
}  // namespace pipedream
