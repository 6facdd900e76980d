#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "tests/coordinator/job/transcript.h"

namespace pipedream {
namespace {

using testing::HasSubstr;
using State = StageReported::State;

VerifyReport Report() {
  VerifyReport report;
  report.declared = "2bw";
  return report;
}

TEST(Verifications, HaveAWorkerToThemselves) {
  Scenario s;
  s.Register("w1");
  s.Register("w2");
  EXPECT_EQ(s.Verify("verify-1"), "verify verify-1 on w1");
  EXPECT_TRUE(s.machine.AssignmentOf("w1").busy);
  EXPECT_EQ(s.machine.AssignmentOf("w1").job_id, "verify-1");
  EXPECT_EQ(s.Verify("verify-2"), "verify verify-2 on w2");
  EXPECT_THAT(
      s.Verify("verify-3"),
      HasSubstr("answer verify-3: FAILED_PRECONDITION: a run is replayed on an idle worker, "
                "and none of the 2 registered is idle"));
  EXPECT_EQ(s.Submit("a", 1), "store a QUEUED");
  EXPECT_THAT(s.Seen("a").reason, HasSubstr("needs 1 idle workers, 0 are idle"));
  // The job that waited gets the worker at once.
  EXPECT_EQ(s.On(VerifyDone{"verify-1", Report()}),
            "cancel calls verify-1; answer verify-1: 2bw; store a PROFILING; profile on w1");
  EXPECT_EQ(s.machine.AssignmentOf("w1").job_id, "a");
  EXPECT_EQ(s.On(VerifyDone{"verify-2", absl::InternalError("a bug")}),
            "cancel calls verify-2; answer verify-2: INTERNAL: a bug");
  EXPECT_FALSE(s.machine.AssignmentOf("w2").busy);
}

TEST(Verifications, EndWhenTheCallerDoes) {
  Scenario s;
  s.Register("w1");
  s.Verify("verify-1");
  EXPECT_EQ(s.On(CancelRequested{"verify-1"}), "cancel calls verify-1");
  EXPECT_TRUE(s.machine.AssignmentOf("w1").busy) << "until the worker has stopped";
  EXPECT_EQ(s.On(VerifyDone{"verify-1", absl::CancelledError("gone")}),
            "cancel calls verify-1; answer verify-1: CANCELLED: gone");
  EXPECT_FALSE(s.machine.AssignmentOf("w1").busy);
}

TEST(Verifications, EndWithTheirWorker) {
  Scenario s;
  s.Register("w1");
  s.Register("w2");
  s.Verify("verify-1");
  s.Verify("verify-2");
  EXPECT_THAT(s.Lose("w1"),
              testing::AllOf(HasSubstr("cancel calls verify-1; answer verify-1: UNAVAILABLE: "
                                       "worker w1 is lost: no heartbeat for 3.1 s"),
                             testing::Not(HasSubstr("verify-2"))));
  EXPECT_EQ(s.On(VerifyDone{"verify-1", absl::CancelledError("late")}), "");
  EXPECT_THAT(s.On(CoordinatorStopping{}),
              HasSubstr("cancel calls verify-2; answer verify-2: UNAVAILABLE: the coordinator"));
  EXPECT_THAT(s.Verify("verify-3"), HasSubstr("answer verify-3: FAILED_PRECONDITION"));
}

TEST(Ledgers, AreKeptWithTheResult) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  s.ReportedLedger("a", "w2", 1, State::kDone);
  EXPECT_EQ(s.ReportedLedger("a", "w1", 0, State::kDone),
            "store a FINISHING; collect w1=s0r0 w2=s1r0");
  s.On(WeightsCollected{{"a", 1}, std::string("hash")});
  // In the order of the stages, whoever came first.
  EXPECT_EQ(s.Seen("a").ledger_sha256, Sha256Hex("stage 0 replica 0\ndigest 0 0000000000001111\n"
                                                 "stage 1 replica 0\ndigest 0 0000000000002222\n"));
}

TEST(Ledgers, OfAJobThatFailsAreKeptAsFarAsTheyCame) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  EXPECT_EQ(s.ReportedLedger("a", "w2", 1, State::kFailed),
            "store ledger of a; store a FAILED; cancel calls a; abort w1; abort w2");
  EXPECT_EQ(s.Seen("a").ledger_sha256, Sha256Hex("stage 1 replica 0\ndigest 0 0000000000002222\n"));
}

TEST(Ledgers, AJobWithoutHasNone) {
  Scenario s;
  s.BringTo("a", JobState::kFinishing);
  s.On(WeightsCollected{{"a", 1}, std::string("hash")});
  EXPECT_EQ(s.Seen("a").ledger_sha256, "");
  s.BringTo("b", JobState::kRunning);
  EXPECT_THAT(s.On(CancelRequested{"b"}), testing::Not(HasSubstr("ledger")));
}

}  // namespace
}  // namespace pipedream
