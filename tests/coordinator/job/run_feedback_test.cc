#include "coordinator/job/run_feedback.h"

#include <gtest/gtest.h>

#include "tests/coordinator/job/transcript.h"

namespace pipedream {
namespace {

Plan TwoStages() {
  Plan plan;
  plan.schedule = "pipedream";
  plan.stages.resize(2);
  plan.stages[0].nodes = {0};
  plan.stages[0].workers = {"w1", "w2"};
  plan.stages[0].compute_s = 0.010;
  plan.stages[0].send_s = 0.001;
  plan.stages[0].sent_bytes = 1'000'000;
  plan.stages[1].nodes = {1};
  plan.stages[1].workers = {"w3"};
  plan.stages[1].compute_s = 0.004;
  plan.step_s = 0.005;
  return plan;
}

ClusterTopology ThreeWorkers() {
  ClusterTopology topology;
  topology.devices = {{"w1", "cpu", 0, "a", 1}, {"w2", "cpu", 0, "a", 2}, {"w3", "cpu", 0, "b", 1}};
  for (const int from : {0, 1, 2})
    for (const int to : {0, 1, 2})
      if (from != to) topology.links.push_back({from, to, 1e9, 0, "tcp"});
  return topology;
}

// After so many microbatches of `seconds` each, a third of it forward.
StageStatus Status(int stage, int replica, const std::string& worker, int64_t microbatches,
                   double seconds) {
  StageStatus status{.stage = stage, .replica = replica, .worker_id = worker};
  status.microbatches_forward = microbatches + 2;
  status.microbatches_backward = microbatches;
  status.forward_s = seconds / 3 * static_cast<double>(microbatches + 2);
  status.backward_s = seconds / 2 * static_cast<double>(microbatches);
  status.step_s = seconds / 6 * static_cast<double>(microbatches);
  return status;
}

void AddRun(RunFeedback* feedback, double w1, double w2, double w3, double link = 0) {
  for (const int64_t done : {1, 5, 20}) {
    for (StageStatus status : {Status(0, 0, "w1", done, done == 1 ? 9.0 : w1),
                               Status(0, 1, "w2", done, w2), Status(1, 0, "w3", done, w3)}) {
      status.link_bytes_per_s = link;
      feedback->Add(status, true);
    }
  }
}

TEST(RunFeedbackTest, ComparesWhatFollowsStartUp) {
  RunFeedback feedback(TwoStages());
  EXPECT_TRUE(feedback.Comparisons().empty());
  EXPECT_FALSE(feedback.complete());
  AddRun(&feedback, 0.012, 0.006, 0.004, 5e8);
  EXPECT_TRUE(feedback.complete());
  const std::vector<StageComparison> comparisons = feedback.Comparisons();
  ASSERT_EQ(comparisons.size(), 3u);
  EXPECT_EQ(comparisons[1].worker_id, "w2");
  EXPECT_DOUBLE_EQ(comparisons[0].predicted_compute_s, 0.010);
  EXPECT_NEAR(comparisons[0].measured_compute_s, 0.012, 1e-9);
  EXPECT_DOUBLE_EQ(comparisons[0].predicted_link_s, 0.001);
  EXPECT_DOUBLE_EQ(comparisons[0].measured_link_s, 0.002);
  EXPECT_EQ(comparisons[2].predicted_link_s, 0);  // nothing follows the last stage
}

TEST(RunFeedbackTest, EvaluationDoesNotCount) {
  RunFeedback feedback(TwoStages());
  AddRun(&feedback, 0.010, 0.005, 0.004);
  feedback.Add(Status(1, 0, "w3", 40, 0.1), /*training_only=*/false);
  EXPECT_NEAR(feedback.Comparisons()[2].measured_compute_s, 0.004, 1e-9);
}

TEST(RunFeedbackTest, MeasuredSpeedsAndLinksReplaceThoseOfThePlan) {
  RunFeedback feedback(TwoStages());
  // As predicted: w2 is twice as fast as w1, by which the stage is planned. w3 is half as fast.
  AddRun(&feedback, 0.010, 0.005, 0.008, 5e8);
  const ClusterTopology topology = feedback.AsMeasured(ThreeWorkers());
  EXPECT_EQ(topology.devices[0].speed, 1);
  EXPECT_EQ(topology.devices[1].speed, 2);
  EXPECT_NEAR(topology.devices[2].speed, 0.5, 1e-9);
  for (const LinkInfo& link : topology.links)
    EXPECT_EQ(link.bandwidth_bytes_per_s, link.from < 2 && link.to == 2 ? 5e8 : 1e9);
}

class ReconsideringTest : public testing::Test {
 protected:
  // Two workers as two stages, running.
  void SetUp() override {
    scenario_.Register("w1");
    scenario_.Register("w2");
    scenario_.Submit("j", 2);
    scenario_.Profiled("j");
    scenario_.Linked("j");
    PlannedRun run;
    run.plan = TwoStages();
    run.plan.stages[0].workers = {"w1"};
    run.plan.stages[1].workers = {"w2"};
    run.programs = std::make_shared<const std::vector<StageProgram>>(2);
    scenario_.On(PlanDone{{"j", 1}, run});
    for (const char* worker : {"w1", "w2"}) scenario_.Prepared("j", worker);
    for (const char* worker : {"w1", "w2"}) scenario_.Started("j", worker);
    ASSERT_EQ(scenario_.Seen("j").state, JobState::kRunning);
  }
  std::string Report(const std::string& worker, int64_t done, double seconds) {
    StageReported report{.ref = {"j", 1}, .worker_id = worker};
    report.progress.status = Status(worker == "w1" ? 0 : 1, 0, worker, done, seconds);
    return scenario_.On(report);
  }

  Scenario scenario_;
};

TEST_F(ReconsideringTest, OnceAfterTheFirstSteps) {
  EXPECT_EQ(Report("w1", 4, 0.010), "");
  EXPECT_EQ(Report("w2", 4, 0.008), "");
  EXPECT_EQ(Report("w2", 15, 0.008), "");
  EXPECT_EQ(Report("w1", 15, 0.010), "reconsider w1 x1 w2 x0.5");
  EXPECT_EQ(Report("w1", 16, 0.010), "");
  scenario_.After(1);
  const std::vector<StageComparison>& comparisons = scenario_.Seen("j").progress.comparisons;
  ASSERT_EQ(comparisons.size(), 2u);
  EXPECT_NEAR(comparisons[1].measured_compute_s, 0.008, 1e-9);
}

TEST_F(ReconsideringTest, TellsOfAPlanThatIsWorthIt) {
  const auto answer = [&](double current_s, double best_s) {
    PlanReconsidered::Answer plans{TwoStages(), TwoStages()};
    plans.current.step_s = current_s;
    plans.best.step_s = best_s;
    plans.best.stages[1].workers = {"w3", "w4"};
    const int64_t before = scenario_.Seen("j").last_sequence;
    scenario_.On(PlanReconsidered{{"j", 1}, plans});
    scenario_.After(1);
    return scenario_.Seen("j").last_sequence - before;
  };
  EXPECT_EQ(answer(0.0108, 0.0100), 0);
  EXPECT_EQ(answer(0.0120, 0.0100), 1);
}

}  // namespace
}  // namespace pipedream
