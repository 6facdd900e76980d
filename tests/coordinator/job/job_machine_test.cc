#include "coordinator/job/job_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/base/status.h"
#include "tests/coordinator/job/transcript.h"

namespace pipedream {
namespace {

using testing::HasSubstr;
using State = StageReported::State;
constexpr JobState kLiving[] = {JobState::kProfiling, JobState::kPartitioning,
                                JobState::kPlacing,   JobState::kStarting,
                                JobState::kRunning,   JobState::kFinishing};

bool HoldsStages(JobState state) {
  return state != JobState::kProfiling && state != JobState::kPartitioning;
}

TEST(JobMachine, AJobGoesItsWay) {
  Scenario s;
  EXPECT_EQ(s.Submit("a", 2), "store a QUEUED");
  EXPECT_EQ(s.Register("w1"), "");
  EXPECT_EQ(s.Register("w2"), "store a PROFILING; links w1>w2; profile on w1");
  EXPECT_EQ(s.Linked("a"), "");
  EXPECT_EQ(s.Profiled("a"), "store profile; store a PARTITIONING; plan for 2");
  EXPECT_EQ(s.Planned("a", {{"w1"}, {"w2"}}), "store a PLACING; prepare w1=s0r0 w2=s1r0");
  EXPECT_EQ(s.Prepared("a", "w2"), "");
  EXPECT_EQ(s.Prepared("a", "w1"), "store a STARTING; start w1=s0r0 w2=s1r0");
  EXPECT_EQ(s.Started("a", "w1"), "");
  EXPECT_EQ(s.Started("a", "w2"), "store a RUNNING");
  EXPECT_EQ(s.Reported("a", "w1", State::kRunning, "B7", 8), "");
  EXPECT_EQ(s.Reported("a", "w1", State::kDone), "");
  EXPECT_EQ(s.Reported("a", "w2", State::kDone), "store a FINISHING; collect w1=s0r0 w2=s1r0");
  EXPECT_EQ(s.On(WeightsCollected{{"a", 1}, std::string("hash")}),
            "store a SUCCEEDED; cancel calls a; abort w1; abort w2");
  EXPECT_EQ(s.Seen("a").result_sha256, "hash");
  EXPECT_EQ(s.Seen("a").progress.minibatch, 20);
  EXPECT_EQ(s.machine.Find("a"), nullptr);
  EXPECT_TRUE(s.machine.AssignmentOf("w1").busy);
  EXPECT_EQ(s.Aborted("a", "w1"), "");
  EXPECT_FALSE(s.machine.AssignmentOf("w1").busy);
}

TEST(JobMachine, TheQueueSaysWhatIsMissing) {
  Scenario s;
  s.Register("w1");
  s.Submit("a", 2);
  EXPECT_EQ(s.Seen("a").reason, "needs 2 workers, 1 are registered");
  s.Register("w2");
  EXPECT_EQ(s.Seen("a").state, JobState::kProfiling);
  s.Submit("b", 2);
  EXPECT_EQ(s.Seen("b").reason, "needs 2 idle workers, 0 are idle; a runs on the others");
  s.Submit("c", 1);
  EXPECT_EQ(s.Seen("c").reason, "waits behind job b");
  s.Register("w3");
  EXPECT_EQ(s.Seen("b").reason, "needs 2 idle workers, 1 are idle; a runs on the others");
  EXPECT_EQ(s.Seen("c").state, JobState::kQueued);  // no overtaking
}

TEST(JobMachine, TheNextJobStartsWhenWorkersAreReallyFree) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  s.Submit("b", 2);
  EXPECT_EQ(s.On(CancelRequested{"a"}), "store a CANCELLED; cancel calls a; abort w1; abort w2");
  EXPECT_THAT(s.Seen("b").reason, HasSubstr("2 are being freed"));
  EXPECT_EQ(s.Aborted("a", "w1"), "");
  // The link is known from the first job; the model is another.
  EXPECT_EQ(s.Aborted("a", "w2"), "store b PROFILING; profile on w1");
}

TEST(JobMachine, AnAbortThatFailsIsRepeated) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  s.On(CancelRequested{"a"});
  EXPECT_EQ(s.On(StageAborted{{"a", 1}, "w1", absl::DeadlineExceededError("late")}), "");
  EXPECT_EQ(s.After(0.5), "");
  EXPECT_EQ(s.After(0.6), "abort w1");
  EXPECT_EQ(s.After(5), "");  // one at a time
  EXPECT_TRUE(s.machine.AssignmentOf("w1").busy);
  s.Aborted("a", "w1");
  EXPECT_FALSE(s.machine.AssignmentOf("w1").busy);
}

TEST(JobMachine, AJobForAllWorkersWaitsUntilNoMoreArrive) {
  Scenario s;
  s.Submit("a", 0);
  EXPECT_EQ(s.Register("w1"), "");
  EXPECT_EQ(s.After(1.5), "");
  EXPECT_EQ(s.Register("w2"), "");
  EXPECT_THAT(s.Seen("a").reason, HasSubstr("waits a moment"));
  EXPECT_EQ(s.After(1.9), "");
  EXPECT_EQ(s.After(0.2), "store a PROFILING; links w1>w2; profile on w1");
}

TEST(JobMachine, WaitingTooLongFails) {
  Scenario s;
  s.Register("w1");
  s.Submit("a", 2, /*start_timeout_s=*/5);
  EXPECT_EQ(s.After(4.9), "");
  EXPECT_EQ(s.After(0.2), "store a FAILED; cancel calls a");
  ASSERT_TRUE(s.Seen("a").failure.has_value());
  EXPECT_EQ(s.Seen("a").failure->reason, "UNSATISFIABLE");
  EXPECT_EQ(s.Seen("a").failure->message,
            "not started within 5 s: needs 2 workers, 1 are registered; start more workers, ask "
            "for fewer, or raise start_timeout");
  s.Submit("never", 2, /*start_timeout_s=*/0);
  EXPECT_EQ(s.After(1e6), "");
}

TEST(JobMachine, CancelInEveryState) {
  {
    Scenario s;
    s.BringTo("a", JobState::kQueued);
    EXPECT_EQ(s.On(CancelRequested{"a"}), "store a CANCELLED; cancel calls a");
    EXPECT_EQ(s.On(CancelRequested{"a"}), "");
    s.Register("w1");
    EXPECT_EQ(s.Register("w2"), "");
  }
  for (JobState state : kLiving) {
    SCOPED_TRACE(ToString(state));
    Scenario s;
    s.BringTo("a", state);
    ASSERT_EQ(s.Seen("a").state, state);
    EXPECT_EQ(s.On(CancelRequested{"a"}),
              HoldsStages(state) ? "store a CANCELLED; cancel calls a; abort w1; abort w2"
                                 : "store a CANCELLED; cancel calls a");
    EXPECT_FALSE(s.Seen("a").failure.has_value());
  }
}

TEST(JobMachine, ALostWorkerFailsTheJobInEveryState) {
  for (JobState state : kLiving) {
    SCOPED_TRACE(ToString(state));
    Scenario s;
    s.BringTo("a", state);
    ASSERT_EQ(s.Seen("a").state, state);
    EXPECT_EQ(s.Lose("w2"), HoldsStages(state) ? "store a FAILED; cancel calls a; abort w1"
                                               : "store a FAILED; cancel calls a");
    const JobFailure& failure = s.Seen("a").failure.value();
    EXPECT_EQ(failure.reason, "WORKER_LOST");
    EXPECT_EQ(failure.worker_id, "w2");
    EXPECT_EQ(failure.stage, HoldsStages(state) ? 1 : -1);
  }
}

TEST(JobMachine, ALostWorkerIsNamedWithItsLastOperation) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  s.Reported("a", "w2", State::kRunning, "receive activation 12 from stage 0");
  s.Lose("w2");
  EXPECT_EQ(s.Seen("a").failure->operation, "receive activation 12 from stage 0");
  EXPECT_EQ(s.Seen("a").failure->message,
            "worker w2 (stage 1, replica 0) is lost: no heartbeat for 3.1 s; it was last at: "
            "receive activation 12 from stage 0");
}

TEST(JobMachine, AnIdleWorkerMayBeLost) {
  Scenario s;
  s.Register("w3");
  EXPECT_EQ(s.Lose("w3"), "");
  s.BringTo("a", JobState::kRunning);
  s.Register("w4");
  EXPECT_EQ(s.Lose("w4"), "");
}

TEST(JobMachine, TheFirstCauseWinsOverALostPeer) {
  struct Case {
    std::string name;
    std::function<std::string(Scenario&)> cause;
    std::string reason, worker;
  };
  Case cases[] = {
      {"lease", [](Scenario& s) { return s.Lose("w2"); }, "WORKER_LOST", "w2"},
      {"own failure",
       [](Scenario& s) {
         return s.ReportedFailure("a", "w2", "NON_FINITE_LOSS",
                                  absl::StatusCode::kFailedPrecondition, "loss is nan");
       },
       "NON_FINITE_LOSS", "w2"},
      {"nothing better", [](Scenario& s) { return s.After(2.1); }, "PEER_LOST", "w1"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Scenario s;
    s.BringTo("a", JobState::kRunning);
    EXPECT_EQ(s.ReportedFailure("a", "w1", "PEER_LOST", absl::StatusCode::kUnavailable,
                                "peer of channel x is gone"),
              "");
    EXPECT_EQ(s.After(2), "");
    EXPECT_THAT(c.cause(s), HasSubstr("store a FAILED"));
    EXPECT_EQ(s.Seen("a").failure->reason, c.reason);
    EXPECT_EQ(s.Seen("a").failure->worker_id, c.worker);
  }
}

TEST(JobMachine, ACauseThatTravelledThroughAPeerIsNotTakenForThePeersOwn) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  EXPECT_EQ(s.ReportedFailure("a", "w1", "NON_FINITE_LOSS", absl::StatusCode::kFailedPrecondition,
                              "aborted by the peer: loss is nan"),
            "");
  s.ReportedFailure("a", "w2", "NON_FINITE_LOSS", absl::StatusCode::kFailedPrecondition,
                    "loss is nan in step 3");
  EXPECT_EQ(s.Seen("a").failure->worker_id, "w2");
}

TEST(JobMachine, AFailureToPrepareNamesStageAndWorker) {
  Scenario s;
  s.BringTo("a", JobState::kPlacing);
  absl::Status status = WithReason(absl::ResourceExhaustedError("needs 2 GiB"), "OUT_OF_MEMORY");
  EXPECT_EQ(s.On(StagePrepared{{"a", 1}, "w2", status}),
            "store a FAILED; cancel calls a; abort w1; abort w2");
  const JobFailure& failure = s.Seen("a").failure.value();
  EXPECT_EQ(failure.reason, "OUT_OF_MEMORY");
  EXPECT_EQ(failure.stage, 1);
  EXPECT_EQ(s.Seen("a").reason, "OUT_OF_MEMORY: stage 1 replica 0 on w2: needs 2 GiB");
}

TEST(JobMachine, AnswersOfOtherAttemptsAndStatesAreIgnored) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  EXPECT_EQ(s.On(StagePrepared{{"a", 1}, "w1", absl::InternalError("late")}), "");
  EXPECT_EQ(s.On(PlanDone{{"a", 2}, absl::InternalError("other attempt")}), "");
  StageReported old{.ref = {"a", 0}, .worker_id = "w1", .state = State::kFailed};
  EXPECT_EQ(s.On(old), "");
  EXPECT_EQ(s.Seen("a").state, JobState::kRunning);
  EXPECT_TRUE(s.machine.KeepsStage("w1", {"a", 1}));
  EXPECT_FALSE(s.machine.KeepsStage("w1", {"a", 0}));
  EXPECT_FALSE(s.machine.KeepsStage("w3", {"a", 1}));
  EXPECT_FALSE(s.machine.KeepsStage("w1", {"b", 1}));
  s.On(CancelRequested{"a"});
  EXPECT_FALSE(s.machine.KeepsStage("w1", {"a", 1}));
}

TEST(JobMachine, WorkersThePlannerLeavesOutAreFreeAtOnce) {
  Scenario s;
  s.Submit("a", 3);
  for (auto* w : {"w1", "w2", "w3"}) s.Register(w);
  s.Submit("b", 1);
  s.Linked("a");
  s.Profiled("a");
  EXPECT_EQ(s.Planned("a", {{"w1"}, {"w3"}}),
            "store a PLACING; prepare w1=s0r0 w3=s1r0; store b PROFILING; profile on w2");
}

TEST(JobMachine, APlanThatDoesNotFitTheWorkersIsABug) {
  Scenario s;
  s.BringTo("a", JobState::kPartitioning);
  s.Planned("a", {{"w1"}, {"w9"}});
  EXPECT_EQ(s.Seen("a").failure->reason, "PLAN_FAILED");
}

TEST(JobMachine, AStallNamesWhatEveryStageDoes) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  s.Reported("a", "w1", State::kRunning, "send activation 3 to stage 1");
  s.Reported("a", "w2", State::kRunning, "F2");
  for (int i = 0; i < 59; ++i) {
    s.Advance(1);
    s.Reported("a", "w1", State::kRunning, "send activation 3 to stage 1");
    EXPECT_EQ(s.Seen("a").state, JobState::kRunning);
  }
  s.After(2);
  EXPECT_EQ(s.Seen("a").failure->reason, "STALLED");
  EXPECT_THAT(s.Seen("a").failure->message,
              HasSubstr("stage 0 replica 0 (w1): send activation 3 to stage 1; stage 1 replica 0 "
                        "(w2): F2"));
}

TEST(JobMachine, RestartKeepsTheQueueAndFailsWhatRan) {
  Scenario before;
  before.BringTo("a", JobState::kRunning);
  before.Submit("b", 1);
  Scenario after;
  EXPECT_EQ(after.Restore({before.Seen("a"), before.Seen("b")}), "store a FAILED; cancel calls a");
  EXPECT_EQ(after.Seen("a").failure->reason, "COORDINATOR_RESTARTED");
  EXPECT_FALSE(after.machine.KeepsStage("w1", {"a", 1}));
  EXPECT_EQ(after.Seen("b").state, JobState::kQueued);
  EXPECT_EQ(after.Register("w1"), "store b PROFILING; profile on w1");
}

TEST(JobMachine, AKnownProfileIsUsedAgain) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  s.On(CancelRequested{"a"});
  s.Aborted("a", "w1");
  s.Aborted("a", "w2");
  JobSpec spec;
  spec.workers = 2;
  spec.batch_size = 10;
  spec.model.sha256 = "model of a";
  RunShape run{.train_samples = 100, .batch_size = 10, .epochs = 5};
  EXPECT_EQ(s.On(Submitted{"b", spec, run, {}}),
            "store b QUEUED; store b PROFILING; store b PARTITIONING; plan for 2");
}

TEST(JobMachine, PlanningAloneStoresNothingAndFreesItsWorkers) {
  Scenario s;
  s.Register("w1");
  JobSpec spec;
  spec.workers = 1;
  RunShape run{.train_samples = 100, .batch_size = 10};
  EXPECT_EQ(s.On(Submitted{"p", spec, run, {}, true}), "profile on w1");
  EXPECT_EQ(s.Profiled("p"), "store profile; plan for 1");
  EXPECT_EQ(s.Planned("p", {{"w1"}}), "answer plan 1; cancel calls p");
  EXPECT_FALSE(s.machine.AssignmentOf("w1").busy);
  EXPECT_FALSE(s.Has("p"));
  spec.workers = 2;
  EXPECT_EQ(s.On(Submitted{"q", spec, run, {}, true}), "");
  EXPECT_THAT(s.After(10.1), HasSubstr("needs 2 workers, 1 are registered"));
}

TEST(JobMachine, AJobThatCannotBeStoredStops) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  s.On(StoreFailed{"a", absl::ResourceExhaustedError("disk full")});
  EXPECT_EQ(s.Seen("a").failure->reason, "STORE_FAILED");
}

TEST(JobMachine, StoppingFailsWhatRunsAndStartsNothing) {
  Scenario s;
  s.BringTo("a", JobState::kRunning);
  s.Submit("b", 2);
  EXPECT_EQ(s.On(CoordinatorStopping{}), "store a FAILED; cancel calls a; abort w1; abort w2");
  s.Aborted("a", "w1");
  EXPECT_EQ(s.Aborted("a", "w2"), "");
  EXPECT_EQ(s.Seen("b").state, JobState::kQueued);
}

TEST(JobMachine, TimingsAddUp) {
  Scenario s;
  s.Submit("a", 1);
  s.Advance(3);
  s.Register("w1");
  s.Advance(2);
  s.Profiled("a");
  s.Advance(1);
  s.On(CancelRequested{"a"});
  EXPECT_DOUBLE_EQ(s.Seen("a").timings.of(JobState::kQueued), 3);
  EXPECT_DOUBLE_EQ(s.Seen("a").timings.of(JobState::kProfiling), 2);
  EXPECT_DOUBLE_EQ(s.Seen("a").timings.of(JobState::kPartitioning), 1);
  EXPECT_EQ(s.Seen("a").finished_us - s.Seen("a").created_us, 6'000'000);
  EXPECT_EQ(s.Seen("a").started_us - s.Seen("a").created_us, 3'000'000);
}

Submitted WithPlan(const std::string& id, const std::vector<std::string>& workers) {
  Submitted event{id, {}, {.train_samples = 100, .batch_size = 10, .epochs = 2}, {}};
  event.spec.plan = Plan();
  for (const std::string& worker : workers) {
    PlanStage& stage = event.spec.plan->stages.emplace_back();
    stage.workers = {worker};
  }
  return event;
}

TEST(JobMachine, AJobWithAPlanTakesTheWorkersThatItNames) {
  Scenario s;
  for (const char* worker : {"w1", "w2", "w3"}) s.Register(worker);
  s.After(3);
  s.On(WithPlan("a", {"w3", "w1"}));
  EXPECT_TRUE(s.machine.AssignmentOf("w1").busy);
  EXPECT_FALSE(s.machine.AssignmentOf("w2").busy);
  EXPECT_TRUE(s.machine.AssignmentOf("w3").busy);
  s.Register("w4");
  s.After(3);
  s.On(WithPlan("b", {"w2", "w3"}));
  EXPECT_EQ(s.Seen("b").state, JobState::kQueued);
  EXPECT_EQ(s.Seen("b").reason, "its plan names worker w3, which is not idle");
}

TEST(JobMachine, APlanOfWorkersThatAreNotThereIsRejected) {
  Scenario s;
  for (const char* worker : {"w1", "w2"}) s.Register(worker);
  s.After(3);
  s.On(WithPlan("a", {"w1", "w9"}));
  ASSERT_EQ(s.Seen("a").state, JobState::kFailed);
  EXPECT_EQ(s.Seen("a").failure->reason, "PLAN_REJECTED");
  EXPECT_THAT(s.Seen("a").failure->message,
              testing::HasSubstr("stage 1 names worker 'w9', which is not registered"));
  EXPECT_FALSE(s.machine.AssignmentOf("w1").busy);
}

TEST(JobMachine, MeasuringOnlyEndsBeforePlanning) {
  Scenario s;
  s.Register("w1");
  Submitted event{"m", {}, {.train_samples = 100, .batch_size = 10, .epochs = 2}, {}, true, true};
  event.spec.workers = 1;
  s.On(event);
  EXPECT_THAT(s.Profiled("m"), testing::HasSubstr("answer plan "));
  EXPECT_FALSE(s.machine.AssignmentOf("w1").busy);
}

}  // namespace
}  // namespace pipedream
