#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/job/loss_curve.h"
#include "coordinator/job/profile_key.h"
#include "coordinator/job/progress_tracker.h"

namespace pipedream {
namespace {

using testing::ElementsAre;

TEST(LossCurve, ReplicasOfOneMinibatchAreWeightedBySamples) {
  LossCurve curve;
  curve.Add({0, 0, 6.0, 3});
  curve.Add({0, 0, 1.0, 1});
  curve.Add({1, 1, 2.0, 4});
  curve.Add({2, 2, 9.0, 0});  // no samples: nothing to say
  curve.Add({-1, -1, 9.0, 4});
  EXPECT_THAT(curve.points(), ElementsAre(JobLoss{0, 0, 7.0, 4}, JobLoss{1, 1, 2.0, 4}));
  EXPECT_DOUBLE_EQ(curve.RecentMean(1), 0.5);
  EXPECT_DOUBLE_EQ(curve.RecentMean(10), 9.0 / 8);
  EXPECT_EQ(LossCurve().RecentMean(5), 0);
}

TEST(LossCurve, StaysBoundedAndKeepsTheSums) {
  LossCurve curve(8);
  for (int i = 0; i < 100; ++i) curve.Add({i, i, 2.0, 4});
  std::vector<JobLoss> points = curve.points();
  EXPECT_LE(points.size(), 8u);
  EXPECT_GE(points.size(), 4u);
  double sum = 0;
  int64_t samples = 0, next = 0;
  for (const JobLoss& p : points) {
    EXPECT_EQ(p.first_minibatch, next);
    next = p.last_minibatch + 1;
    sum += p.loss_sum;
    samples += p.samples;
  }
  EXPECT_EQ(next, 100);
  EXPECT_DOUBLE_EQ(sum, 200);
  EXPECT_EQ(samples, 400);
}

// 25 samples in batches of 10: 3 minibatches an epoch, 2 epochs.
RunShape TwoEpochs() {
  return {.train_samples = 25, .evaluation_samples = 7, .batch_size = 10, .epochs = 2};
}

ProgressReport Report(int stage, int replica, int64_t backward, std::string operation = "F1") {
  ProgressReport report;
  report.status.stage = stage;
  report.status.replica = replica;
  report.status.microbatches_backward = backward;
  report.status.updates = backward;
  report.status.operation = std::move(operation);
  return report;
}

TEST(ProgressTracker, PositionIsWhatTheFirstStageHasFinished) {
  ProgressTracker tracker(JobSpec{}, TwoEpochs(), 0.5);
  tracker.Add(Report(1, 0, 6), FromSeconds(1));
  EXPECT_EQ(tracker.Snapshot().minibatch, 0);
  tracker.Add(Report(0, 0, 2), FromSeconds(1));
  tracker.Add(Report(0, 1, 2), FromSeconds(2));
  JobProgress progress = tracker.Snapshot();
  EXPECT_EQ(progress.minibatch, 4);
  EXPECT_EQ(progress.minibatches, 6);
  EXPECT_EQ(progress.epoch, 1);
  EXPECT_EQ(progress.samples, 35);  // a whole epoch and one batch
  EXPECT_EQ(progress.predicted_step_s, 0.5);
  tracker.Finish();
  EXPECT_EQ(tracker.Snapshot().samples, 50);
}

TEST(ProgressTracker, RateAndRemainingTime) {
  RunShape run{.train_samples = 1000, .batch_size = 10, .epochs = 1};
  ProgressTracker tracker(JobSpec{}, run, 0);
  for (int t = 0; t <= 20; ++t) tracker.Add(Report(0, 0, 2 * t), FromSeconds(t));
  JobProgress progress = tracker.Snapshot();
  EXPECT_DOUBLE_EQ(progress.samples_per_s, 20);
  EXPECT_DOUBLE_EQ(progress.eta_s, 30);
  EXPECT_DOUBLE_EQ(progress.measured_step_s, 0.5);
}

TEST(ProgressTracker, EvaluationsOfReplicasAddAndShowOnceWhole) {
  RunShape run = TwoEpochs();
  run.evaluation_samples = 7;
  ProgressTracker tracker(JobSpec{}, run, 0);
  ProgressReport a = Report(1, 0, 0), b = Report(1, 1, 0);
  a.evaluations = {{0, 4.0, 3, 4, 4}, {1, 1.0, -1, 0, 4}};
  b.evaluations = {{0, 2.0, 1, 3, 3}};
  tracker.Add(a, FromSeconds(1));
  EXPECT_THAT(tracker.Snapshot().evaluations, testing::IsEmpty());
  tracker.Add(b, FromSeconds(1));
  EXPECT_THAT(tracker.Snapshot().evaluations, ElementsAre(JobEvaluation{0, 6.0, 4, 7, 7}));
}

TEST(ProgressTracker, WaitingAloneIsNoChange) {
  ProgressTracker tracker(JobSpec{}, TwoEpochs(), 0);
  tracker.Add(Report(0, 0, 1, "receive gradient 3 from stage 1"), FromSeconds(1));
  ProgressReport same = Report(0, 0, 1, "receive gradient 3 from stage 1");
  same.status.wait_receive_s = 10;
  tracker.Add(same, FromSeconds(5));
  EXPECT_EQ(tracker.last_change(), FromSeconds(1));
  tracker.Add(Report(0, 0, 1, "E4"), FromSeconds(6));
  EXPECT_EQ(tracker.last_change(), FromSeconds(6));
}

TEST(ProfileKey, ChangesWithWhatIsMeasuredOnly) {
  JobSpec spec;
  spec.model.sha256 = "m";
  RunShape run = TwoEpochs();
  std::string key = ProfileKey(spec, run, "cpu", "1");
  EXPECT_EQ(key.size(), 64u);
  spec.name = "other";
  spec.seed = 9;
  run.epochs = 7;
  EXPECT_EQ(ProfileKey(spec, run, "cpu", "1"), key);
  EXPECT_NE(ProfileKey(spec, run, "gpu", "1"), key);
  EXPECT_NE(ProfileKey(spec, run, "cpu", "2"), key);
  run.batch_size = 20;
  EXPECT_NE(ProfileKey(spec, run, "cpu", "1"), key);
  run = TwoEpochs();
  spec.freeze_patterns = {"conv*"};
  EXPECT_NE(ProfileKey(spec, run, "cpu", "1"), key);
}

}  // namespace
}  // namespace pipedream
