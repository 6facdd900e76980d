#include "tests/failure/failure_fixture.h"

namespace pipedream {
namespace {

using testing::HasSubstr;
using testing::Not;

class WorkerLostTest : public FailureTest {
 protected:
  // The worker that holds the stage, as an index.
  int WorkerOfStage(const v1::Job& job, int stage) const {
    const std::string id = job.plan().stages(stage).workers(0);
    return std::stoi(id.substr(id.rfind('-') + 1)) - 1;
  }

  static void ExpectBlames(const v1::Job& job, const std::string& worker, int stage) {
    EXPECT_EQ(job.failure().reason(), "WORKER_LOST");
    EXPECT_EQ(job.failure().worker_id(), worker);
    EXPECT_EQ(job.failure().stage(), stage);
    EXPECT_NE(job.failure().operation(), "");
    EXPECT_THAT(job.failure().message(), HasSubstr(worker));
  }

  static std::vector<int> Others(int count, int but) {
    std::vector<int> others;
    for (int i = 0; i < count; ++i)
      if (i != but) others.push_back(i);
    return others;
  }
};

TEST_F(WorkerLostTest, AnyStageThatIsKilledFailsItsJobAndFreesTheOthers) {
  StartCluster(3);
  for (int stage : {0, 1, 2}) {
    SCOPED_TRACE(stage);
    const std::string id = SubmitLong(3);
    ASSERT_TRUE(WaitForProgress(id));
    const int worker = WorkerOfStage(Get(id), stage);
    KillWorker(worker);
    const v1::Job job = ExpectFails(id, "kill -9 of stage " + std::to_string(stage));
    ExpectBlames(job, WorkerId(worker), stage);
    ExpectIdle(Others(3, worker));
    ExpectTrains(2);
    ASSERT_OK(Restart(worker));
    ExpectIdle({0, 1, 2});
  }
}

TEST_F(WorkerLostTest, ARestartedWorkerIsMissedAtOnce) {
  StartCluster(2);
  const std::string id = SubmitLong(2);
  ASSERT_TRUE(WaitForProgress(id));
  const int worker = WorkerOfStage(Get(id), 1);
  KillWorker(worker);
  ASSERT_OK(Restart(worker));
  ExpectBlames(ExpectFails(id, "kill -9 and restart"), WorkerId(worker), 1);
  ExpectIdle({0, 1});
  ExpectTrains(2);
}

TEST_F(WorkerLostTest, AStoppedWorkerFailsItsJobAndIsUsableAfterwards) {
  StartCluster(3);
  for (int stage : {1, 2}) {
    SCOPED_TRACE(stage);
    const std::string id = SubmitLong(3);
    ASSERT_TRUE(WaitForProgress(id));
    const int worker = WorkerOfStage(Get(id), stage);
    cluster_.worker(worker).Kill(SIGSTOP);
    const v1::Job job = ExpectFails(id, "SIGSTOP of stage " + std::to_string(stage));
    ExpectBlames(job, WorkerId(worker), stage);
    ExpectIdle(Others(3, worker));
    ExpectTrains(2);
    cluster_.worker(worker).Kill(SIGCONT);
    ExpectIdle({0, 1, 2});
    ExpectTrains(3);
  }
}

TEST_F(WorkerLostTest, OneKilledWhileItProfilesIsNamed) {
  StartCluster(2);
  cluster_.worker(0).Kill(SIGSTOP);  // the one that profiles; it stays at that
  const std::string id = SubmitLong(2);
  ASSERT_TRUE(WaitForState(id, v1::JOB_STATE_PROFILING));
  KillWorker(0);
  const v1::Job job = ExpectFails(id, "kill -9 while PROFILING");
  ExpectBlames(job, WorkerId(0), -1);
  ExpectIdle({1});
  ExpectTrains(1);
}

TEST_F(WorkerLostTest, OneKilledWhileItPreparesIsNamed) {
  StartCluster(2);
  ExpectTrains(2);  // what can be measured is known from here on
  ExpectIdle({0, 1});
  cluster_.worker(1).Kill(SIGSTOP);
  const std::string id = SubmitLong(2);
  ASSERT_TRUE(WaitForState(id, v1::JOB_STATE_PLACING));
  KillWorker(1);
  const v1::Job job = ExpectFails(id, "kill -9 while PLACING");
  ExpectBlames(job, WorkerId(1), job.failure().stage());
  EXPECT_GE(job.failure().stage(), 0);
  EXPECT_THAT(job.failure().operation(), HasSubstr("prepare"));
  ExpectIdle({0});
  ExpectTrains(1);
}

TEST_F(WorkerLostTest, OneKilledWhileChannelsAreOpenedIsNamed) {
  StartCluster(2);
  ExpectTrains(2);
  ExpectIdle({0, 1});
  cluster_.worker(0).Kill(SIGSTOP);  // keeps the job in PLACING until the other is prepared
  const std::string id = SubmitLong(2);
  ASSERT_GE(
      WaitUntil(kPatience,
                [&] {
                  return cluster_.Run({"logs", id}).out.find("is prepared") != std::string::npos;
                }),
      0);
  cluster_.worker(1).Kill(SIGSTOP);
  cluster_.worker(0).Kill(SIGCONT);
  ASSERT_TRUE(WaitForState(id, v1::JOB_STATE_STARTING));
  KillWorker(1);
  const v1::Job job = ExpectFails(id, "kill -9 while STARTING");
  ExpectBlames(job, WorkerId(1), job.failure().stage());
  EXPECT_THAT(job.failure().operation(), HasSubstr("start"));
  ExpectIdle({0});
  ExpectTrains(1);
}

TEST_F(WorkerLostTest, SigtermLetsAWorkerLeaveCleanly) {
  StartCluster(3);
  const std::string id = SubmitLong(3);
  ASSERT_TRUE(WaitForProgress(id));
  const int worker = WorkerOfStage(Get(id), 1);
  cluster_.worker(worker).Kill(SIGTERM);
  ExitStatus status;
  ASSERT_TRUE(WaitForEnd(&cluster_.worker(worker), kSoon, &status));
  EXPECT_EQ(status.code, 0);
  ExpectBlames(ExpectFails(id, "SIGTERM of stage 1"), WorkerId(worker), 1);
  ExpectIdle(Others(3, worker));
  ExpectTrains(2);
}

TEST_F(WorkerLostTest, AJobThatFailsByItselfNamesTheStageThatKnows) {
  StartCluster(3);
  const std::string id = SubmitLong(3, {"--lr", "1e30"});
  const double seconds =
      WaitUntil(kPatience, [&] { return Get(id).state() >= v1::JOB_STATE_SUCCEEDED; });
  ASSERT_GE(seconds, 0);
  const v1::Job job = Get(id);
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.failure().reason(), "NON_FINITE_LOSS") << job.failure().message();
  EXPECT_EQ(job.failure().stage(), 2);
  EXPECT_EQ(job.failure().worker_id(), job.plan().stages(2).workers(0));
  EXPECT_THAT(job.failure().message(), Not(HasSubstr("aborted by the peer")));
  EXPECT_NE(job.failure().operation(), "");
  ExpectIdle({0, 1, 2});
  ExpectTrains(3);
}

}  // namespace
}  // namespace pipedream
