// What heartbeats say, and say again.
#include <gtest/gtest.h>

#include "tests/coordinator/job/transcript.h"

namespace pipedream {
namespace {

StageReported Report(int64_t sequence, int64_t minibatch) {
  StageReported report{.ref = {"a", 1}, .worker_id = "w2"};
  report.sequence = sequence;
  report.progress.losses = {{minibatch, minibatch, 2.0, 4}};
  report.progress.evaluations = {{0, 3.0, 1, 2, 2}};
  report.log = {{0, 0, "info", "", "a line"}};
  return report;
}

TEST(Report, CountsOnceHoweverOftenItsAnswerWasLost) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  s.On(Report(1, 0));
  const int64_t events = s.machine.Find("a")->last_sequence;
  s.On(Report(1, 0));
  s.On(Report(1, 0));
  EXPECT_EQ(s.machine.Find("a")->last_sequence, events);
  s.On(Report(2, 1));
  EXPECT_EQ(s.machine.Find("a")->last_sequence, events + 1);
  s.After(1);
  int64_t samples = 0;
  for (const JobLoss& loss : s.Seen("a").progress.curve) samples += loss.samples;
  EXPECT_EQ(samples, 8);
  ASSERT_EQ(s.Seen("a").progress.evaluations.size(), 1u);
  EXPECT_EQ(s.Seen("a").progress.evaluations[0].samples, 4);
}

TEST(Report, TellsOfSkippedUpdatesWheneverTheirNumberHasDoubled) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  const auto events = [&] { return s.machine.Find("a")->last_sequence; };
  const int64_t before = events();
  const auto report = [&](const std::string& worker, int64_t updates, int64_t skipped) {
    StageReported report{.ref = {"a", 1}, .worker_id = worker};
    report.progress.status.updates = updates;
    report.progress.status.skipped_updates = skipped;
    s.On(report);
  };
  report("w1", 4, 0);
  EXPECT_EQ(events(), before);
  report("w1", 5, 1);
  EXPECT_EQ(events(), before + 1);
  report("w2", 5, 1);  // the same update, by another stage
  EXPECT_EQ(events(), before + 1);
  for (int64_t skipped = 2; skipped <= 8; ++skipped) report("w1", 10 + skipped, skipped);
  EXPECT_EQ(events(), before + 4) << "at 1, 2, 4 and 8";
  s.After(1);
  EXPECT_EQ(s.Seen("a").progress.stages[0].skipped_updates, 8);
}

// Whoever waited in vain does not know who was to blame.
TEST(Report, TimeOutsLookForTheFirstCause) {
  Scenario s;
  s.BringTo("a", JobState::kStarting);
  s.On(StageStarted{{"a", 1}, "w1", absl::DeadlineExceededError("no sender has dialled in")});
  EXPECT_EQ(s.Seen("a").state, JobState::kStarting);
  s.Lose("w2");
  EXPECT_EQ(s.Seen("a").state, JobState::kFailed);
  EXPECT_EQ(s.Seen("a").failure->reason, "WORKER_LOST");
  EXPECT_EQ(s.Seen("a").failure->worker_id, "w2");
}

TEST(Report, ATimeOutWithoutAnotherCauseIsTheCause) {
  Scenario s;
  s.BringTo("a", JobState::kStarting);
  s.On(StageStarted{{"a", 1}, "w1", absl::DeadlineExceededError("no sender has dialled in")});
  s.After(5);
  EXPECT_EQ(s.Seen("a").failure->reason, "START_FAILED");
  EXPECT_EQ(s.Seen("a").failure->worker_id, "w1");
}

}  // namespace
}  // namespace pipedream
