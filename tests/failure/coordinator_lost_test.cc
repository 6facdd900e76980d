#include "tests/failure/failure_fixture.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

using CoordinatorLostTest = FailureTest;

TEST_F(CoordinatorLostTest, WorkersStopTrainingAndJoinItsSuccessor) {
  StartCluster(2, {"--orphan-timeout", "2"});
  const std::string id = SubmitLong(2);
  ASSERT_TRUE(WaitForProgress(id));
  cluster_.coordinator().Kill(SIGKILL);
  for (int worker : {0, 1}) {
    const double seconds = WaitUntil(kFailureFloor, [&] {
      return Log(WorkerId(worker)).find("the coordinator does not answer") != std::string::npos;
    });
    EXPECT_GE(seconds, 0) << "worker " << worker << " trains on";
    std::printf("kill -9 of the coordinator to worker %d stopped: %.2f s\n", worker, seconds);
    EXPECT_EQ(cluster_.worker(worker).Poll(), std::nullopt) << "the worker ended";
  }
  ASSERT_OK(RestartCoordinator());
  const v1::Job job = ExpectFails(id, "restart of the coordinator");
  EXPECT_EQ(job.failure().reason(), "COORDINATOR_RESTARTED");
  ExpectIdle({0, 1});
  ExpectTrains(2);
}

TEST_F(CoordinatorLostTest, OneThatRestartsAtOnceFreesItsWorkers) {
  StartCluster(2);
  const std::string running = SubmitLong(2);
  ASSERT_TRUE(WaitForProgress(running));
  const std::string queued = Submit(2, 1);
  cluster_.coordinator().Kill(SIGKILL);
  ASSERT_OK(RestartCoordinator());
  EXPECT_EQ(ExpectFails(running, "restart at once").failure().reason(), "COORDINATOR_RESTARTED");
  EXPECT_TRUE(WaitForState(queued, v1::JOB_STATE_SUCCEEDED)) << "queued jobs wait for the restart";
}

TEST_F(CoordinatorLostTest, SigtermEndsItAndTheJobsThatRun) {
  StartCluster(2);
  const std::string id = SubmitLong(2);
  ASSERT_TRUE(WaitForProgress(id));
  cluster_.coordinator().Kill(SIGTERM);
  ExitStatus status;
  ASSERT_TRUE(WaitForEnd(&cluster_.coordinator(), kSoon, &status));
  EXPECT_EQ(status.code, 0);
  ASSERT_OK(RestartCoordinator());
  EXPECT_EQ(ExpectFails(id, "SIGTERM of the coordinator").failure().reason(),
            "COORDINATOR_STOPPED");
  ExpectIdle({0, 1});
  ExpectTrains(2);
}

}  // namespace
}  // namespace pipedream
