#include "worker/service/worker.h"

#include <atomic>
#include <future>
#include <set>

#include "tests/worker/service/service_fixture.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

bool ReportsStage(const v1::HeartbeatRequest& request) { return request.has_stage(); }
bool ReportsNone(const v1::HeartbeatRequest& request) { return !request.has_stage(); }

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() : job_(&coordinator_) {
    options_.orphan_timeout_s = 3600;
    options_.speed = 1e9;
  }

  void StartWorker() {
    options_.coordinator = coordinator_.address();
    options_.work_dir = folder_.path();
    ASSERT_OK_AND_ASSIGN(worker_, Worker::Start(options_));
    ASSERT_TRUE(coordinator_.AwaitRegistrations(1));
  }

  v1::PrepareStageRequest Request(const std::string& id = "job-1", int64_t attempt = 1) {
    return job_.Request(0, {worker_->connector()->address()}, id, attempt);
  }
  absl::Status Prepare(const v1::PrepareStageRequest& request) {
    return worker_->PrepareStage(request, Never).status();
  }
  // Holds a stage that trains for longer than any test.
  void TrainForLong() {
    job_.spec().epochs = 20000;
    ASSERT_OK(Prepare(Request()));
    ASSERT_OK(worker_->StartStage("job-1", 1));
  }

  FakeCoordinator coordinator_;
  TestJob job_;
  TempFolder folder_;
  WorkerOptions options_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(WorkerTest, RegistersAnewWhenItsLeaseIsGoneAndDropsItsStage) {
  auto valid = std::make_shared<std::atomic<int64_t>>(1);
  coordinator_.OnHeartbeat([valid](const v1::HeartbeatRequest& request, v1::HeartbeatResponse*) {
    return request.incarnation() >= *valid ? grpc::Status::OK
                                           : grpc::Status(grpc::StatusCode::NOT_FOUND, "no lease");
  });
  StartWorker();
  TrainForLong();
  ASSERT_TRUE(coordinator_.AwaitHeartbeat(ReportsStage));
  *valid = 2;
  ASSERT_TRUE(coordinator_.AwaitRegistrations(2));
  EXPECT_EQ(coordinator_.registrations()[1].id(), "worker-7") << "keeps the id it was given";
  EXPECT_TRUE(coordinator_.AwaitHeartbeat(ReportsNone, coordinator_.heartbeats()));
  EXPECT_OK(Prepare(Request("job-2")));
}

TEST_F(WorkerTest, SaysHowFastItIs) {
  StartWorker();
  EXPECT_EQ(coordinator_.registrations()[0].speed(), 1e9) << "as it was told";
  worker_.reset();
  options_.speed = 0;
  ASSERT_OK_AND_ASSIGN(worker_, Worker::Start(options_));
  ASSERT_TRUE(coordinator_.AwaitRegistrations(2));
  const double measured = coordinator_.registrations()[1].speed();
  EXPECT_GT(measured, 1e6);
  EXPECT_NE(measured, 1e9);
}

TEST_F(WorkerTest, WithoutACoordinatorItStopsTrainingAndLivesOn) {
  options_.orphan_timeout_s = 0.2;
  StartWorker();
  TrainForLong();
  ASSERT_OK_AND_ASSIGN(auto session, worker_->Session("job-1", 1));
  coordinator_.Stop();
  ASSERT_TRUE(session->WaitStopped(kTestPatience));
  v1::StageReport report;
  ASSERT_TRUE(session->Report(&report));
  EXPECT_EQ(report.failure().message(), "the coordinator does not answer");
}

TEST_F(WorkerTest, DropsAStageThatTheCoordinatorHasNoUseFor) {
  auto drop = std::make_shared<std::atomic<bool>>(false);
  coordinator_.OnHeartbeat([drop](const v1::HeartbeatRequest&, v1::HeartbeatResponse* response) {
    response->set_drop_stage(*drop);
    return grpc::Status::OK;
  });
  StartWorker();
  TrainForLong();
  ASSERT_TRUE(coordinator_.AwaitHeartbeat(ReportsStage));
  *drop = true;
  EXPECT_TRUE(coordinator_.AwaitHeartbeat(ReportsNone, coordinator_.heartbeats()));
  EXPECT_EQ(worker_->Session("job-1", 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(coordinator_.registrations().size(), 1u);
}

TEST_F(WorkerTest, HoldsOneStageAndKnowsItsAttempt) {
  StartWorker();
  ASSERT_OK(Prepare(Request("job-1", 2)));
  EXPECT_EQ(Prepare(Request("job-2", 1)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Prepare(Request("job-1", 2)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Prepare(Request("job-1", 1)).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(worker_->StartStage("job-1", 1).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(worker_->AbortStage("job-1", 1, "late").code(), absl::StatusCode::kAborted);
  EXPECT_EQ(worker_->StartStage("job-2", 1).code(), absl::StatusCode::kNotFound);
  EXPECT_OK(worker_->AbortStage("job-2", 1, "not held"));
  EXPECT_OK(worker_->Session("job-1", 2).status());  // still there
  EXPECT_OK(Prepare(Request("job-1", 3)));           // a newer attempt takes over
  EXPECT_EQ(worker_->Session("job-1", 2).status().code(), absl::StatusCode::kAborted);
  EXPECT_OK(worker_->AbortStage("job-1", 3, "over"));
  EXPECT_OK(worker_->AbortStage("job-1", 3, "twice"));
  EXPECT_OK(Prepare(Request("job-2", 1)));
}

TEST_F(WorkerTest, AFailedPreparationLeavesTheWorkerFree) {
  StartWorker();
  v1::PrepareStageRequest bad = Request();
  bad.mutable_job()->mutable_spec()->mutable_model()->set_sha256(std::string(64, '0'));
  EXPECT_EQ(Prepare(bad).code(), absl::StatusCode::kNotFound);
  EXPECT_OK(Prepare(Request("job-2")));
}

TEST_F(WorkerTest, HeartbeatsGoOnWhileAStageIsPrepared) {
  coordinator_.OnDownload([&] {
    const int64_t now = coordinator_.heartbeats();
    EXPECT_TRUE(coordinator_.AwaitHeartbeat(ReportsNone, now + 2));
  });
  StartWorker();
  EXPECT_OK(Prepare(Request()));
  EXPECT_TRUE(coordinator_.AwaitHeartbeat(
      [](const v1::HeartbeatRequest& request) {
        return request.stage().state() == v1::StageReport::STATE_PREPARED;
      },
      coordinator_.heartbeats()));
}

// A job that is cancelled while its files are fetched must not stand in the way of the next one.
TEST_F(WorkerTest, AbortWhilePreparingEndsThePreparation) {
  std::promise<void> fetching, go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  // Shared: downloads may go on after this test's locals are gone.
  auto downloads = std::make_shared<std::atomic<int>>(0);
  coordinator_.OnDownload([&fetching, downloads, may_go_on] {
    if ((*downloads)++ == 0) {
      fetching.set_value();
      may_go_on.wait();
    }
  });
  StartWorker();
  const v1::PrepareStageRequest first = Request(), second = Request("job-2");
  auto prepared = std::async(std::launch::async, [&] { return Prepare(first); });
  fetching.get_future().wait();
  auto aborted =
      std::async(std::launch::async, [&] { return worker_->AbortStage("job-1", 1, "cancelled"); });
  auto next = std::async(std::launch::async, [&] { return Prepare(second); });
  go_on.set_value();
  EXPECT_OK(aborted.get());
  EXPECT_EQ(prepared.get().code(), absl::StatusCode::kCancelled);
  EXPECT_OK(next.get());
  EXPECT_OK(worker_->Session("job-2", 1).status());
}

TEST_F(WorkerTest, ACallerThatLeavesDoesNotWaitForTheDevice) {
  std::promise<void> fetching, go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  // Shared: downloads may go on after this test's locals are gone.
  auto downloads = std::make_shared<std::atomic<int>>(0);
  coordinator_.OnDownload([&fetching, downloads, may_go_on] {
    if ((*downloads)++ > 0) return;
    fetching.set_value();
    may_go_on.wait();
  });
  StartWorker();
  const v1::PrepareStageRequest first = Request();
  auto prepared = std::async(std::launch::async, [&] { return Prepare(first); });
  fetching.get_future().wait();
  EXPECT_EQ(worker_->ProfileJob(job_.Context("job-2", 1), [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
  go_on.set_value();
  EXPECT_OK(prepared.get());
  EXPECT_EQ(worker_->ProfileJob(job_.Context("job-2", 1), Never).status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "it holds a stage";
}

// What a worker trained alone, and what it says when it replays that.
TEST_F(WorkerTest, VerifiesWhatItTrained) {
  StartWorker();
  const v1::PrepareStageRequest prepare = Request();
  ASSERT_OK(Prepare(prepare));
  v1::VerifyRunRequest request;
  *request.mutable_job() = prepare.job();
  *request.mutable_plan() = prepare.plan();
  request.set_minibatches(3);
  EXPECT_THAT(worker_->Verify(request, Never),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("holds a stage")));
  ASSERT_OK(worker_->StartStage("job-1", 1));
  ASSERT_TRUE(coordinator_.AwaitHeartbeat([&](const v1::HeartbeatRequest& heartbeat) {
    const bool done = heartbeat.stage().state() == v1::StageReport::STATE_DONE;
    if (done) *request.mutable_ledger() = heartbeat.stage().ledger();
    return done;
  }));
  ASSERT_OK(worker_->AbortStage("job-1", 1, "over"));
  ASSERT_OK_AND_ASSIGN(VerifyReport report, worker_->Verify(request, Never));
  EXPECT_TRUE(report.verified());
  EXPECT_EQ(report.replayed, 3);
  EXPECT_EQ(report.checks[1].name, "semantics");
  EXPECT_EQ(report.checks[1].outcome, VerifyOutcome::kPassed);
  EXPECT_THAT(worker_->Verify(request, [] { return true; }),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
  EXPECT_OK(Prepare(Request("job-2")));
}

TEST_F(WorkerTest, PointsSurviveAnAnswerThatIsLost) {
  struct Seen {
    Mutex mutex;
    std::set<int64_t> counted;
    int64_t samples = 0;
    int repeats = 0;
    bool lost = false;
  };
  auto seen = std::make_shared<Seen>();
  coordinator_.OnHeartbeat([seen](const v1::HeartbeatRequest& request, v1::HeartbeatResponse*) {
    MutexLock lock(seen->mutex);
    if (request.stage().losses_size() == 0) return grpc::Status::OK;
    if (seen->counted.insert(request.stage().sequence()).second) {
      for (const v1::LossPoint& point : request.stage().losses()) seen->samples += point.samples();
    } else {
      ++seen->repeats;
    }
    if (std::exchange(seen->lost, true)) return grpc::Status::OK;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the answer is lost");
  });
  StartWorker();
  ASSERT_OK(Prepare(Request()));
  ASSERT_OK(worker_->StartStage("job-1", 1));
  // With nothing left to say: all before was answered.
  ASSERT_TRUE(coordinator_.AwaitHeartbeat([](const v1::HeartbeatRequest& request) {
    return request.stage().state() == v1::StageReport::STATE_DONE &&
           request.stage().losses_size() == 0;
  }));
  MutexLock lock(seen->mutex);
  EXPECT_EQ(seen->samples, job_.trained_samples());
  EXPECT_EQ(seen->repeats, 1);
}

TEST_F(WorkerTest, ShutdownEndsTrainingAndIsQuickWithoutACoordinator) {
  StartWorker();
  TrainForLong();
  coordinator_.Stop();
  worker_->Shutdown();
  worker_->Shutdown();
  EXPECT_EQ(worker_->Session("job-1", 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Prepare(Request("job-2")).code(), absl::StatusCode::kUnavailable);
}

TEST_F(WorkerTest, AWildcardAddressNeedsAHostThatOthersCanReach) {
  options_.listen = "0.0.0.0:0";
  options_.insecure = true;
  options_.coordinator = coordinator_.address();
  options_.work_dir = folder_.path();
  const absl::Status status = Worker::Start(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--advertise"));

  options_.advertise = "127.0.0.1";
  StartWorker();
  const v1::Worker worker = coordinator_.registrations()[0];
  EXPECT_THAT(worker.control_address(), testing::StartsWith("127.0.0.1:"));
  EXPECT_FALSE(worker.control_address().ends_with(":0"));
  EXPECT_EQ(worker.data_address().host(), "127.0.0.1");
  EXPECT_GT(worker.data_address().port(), 0);
}

}  // namespace
}  // namespace pipedream
