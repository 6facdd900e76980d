#include "worker/service/stage_session.h"

#include <thread>

#include "common/codec/ledger_codec.h"
#include "tests/worker/service/service_fixture.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

class StageSessionTest : public testing::Test {
 protected:
  StageSessionTest() : job_(&coordinator_) {
    job_.spec().evaluate = true;
    auto channel = OpenChannel({.address = coordinator_.address()});
    auto connector = Connector::Create({});
    PIPEDREAM_CHECK(channel.ok() && connector.ok());
    stub_ = v1::CoordinatorService::NewStub(*channel);
    connector_ = *std::move(connector);
    files_ = std::make_unique<JobFileCache>(folder_.path(), stub_.get());
    device_ = MakeCpuDevice(1, 0);
    backend_ = MakeOneDnnBackend();
    resources_ = {files_.get(), device_.get(), connector_.get(), backend_.get(), 1, "w0"};
  }

  // Stage 0 of a pipeline of that many, all here.
  std::unique_ptr<StageSession> Session(int stages) {
    return std::make_unique<StageSession>(
        resources_, job_.Request(0, std::vector<DataAddress>(stages, connector_->address())));
  }

  FakeCoordinator coordinator_;
  TestJob job_;
  TempFolder folder_;
  std::unique_ptr<v1::CoordinatorService::StubInterface> stub_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<KernelBackend> backend_;
  std::unique_ptr<JobFileCache> files_;
  SessionResources resources_;
};

TEST_F(StageSessionTest, GoesFromPreparedToDoneAndHandsOutWeights) {
  auto session = Session(1);
  v1::StageReport report;
  EXPECT_FALSE(session->Report(&report)) << "nothing to say yet";
  EXPECT_EQ(session->Start().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(session->Prepare());
  EXPECT_GT(session->memory_bytes(), 0);
  ASSERT_TRUE(session->Report(&report));
  EXPECT_EQ(report.state(), v1::StageReport::STATE_PREPARED);
  EXPECT_EQ(session->Weights().status().code(), absl::StatusCode::kFailedPrecondition);

  ASSERT_OK(session->Start());
  EXPECT_EQ(session->Start().code(), absl::StatusCode::kFailedPrecondition) << "it runs already";
  ASSERT_TRUE(session->WaitStopped(kTestPatience));
  EXPECT_TRUE(session->done());
  ASSERT_OK_AND_ASSIGN(std::string weights, session->Weights());
  EXPECT_THAT(weights, HasSubstr("conv1"));
  EXPECT_EQ(report.ledger_size(), 0) << "not before the end";
  ASSERT_TRUE(session->Report(&report));
  ASSERT_EQ(report.ledger_size(), 1);
  ASSERT_OK_AND_ASSIGN(StageLedger ledger, FromProto(report.ledger(0)));
  const int64_t minibatches = job_.spec().epochs * job_.Run().minibatches_per_epoch();
  EXPECT_EQ(ledger.versions.size(), minibatches);
  EXPECT_EQ(ledger.digests.back().version, minibatches);

  session->Abort(absl::CancelledError("over"));
  EXPECT_TRUE(session->done()) << "what is done stays done";
  session->Release();
  EXPECT_EQ(session->memory_bytes(), 0);
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST_F(StageSessionTest, AJobThatWantsNoLedgerSendsNone) {
  job_.spec().ledger = false;
  auto session = Session(1);
  ASSERT_OK(session->Prepare());
  ASSERT_OK(session->Start());
  ASSERT_TRUE(session->WaitStopped(kTestPatience));
  v1::StageReport report;
  ASSERT_TRUE(session->Report(&report));
  EXPECT_EQ(report.ledger_size(), 0);
}

TEST_F(StageSessionTest, PointsAreRepeatedUntilAcknowledgedAndDoneComesLast) {
  auto session = Session(1);
  ASSERT_OK(session->Prepare());
  ASSERT_OK(session->Start());
  v1::StageReport first;
  do {
    ASSERT_TRUE(session->Report(&first));
  } while (first.losses_size() == 0);
  ASSERT_TRUE(session->WaitStopped(kTestPatience));

  v1::StageReport repeated;
  ASSERT_TRUE(session->Report(&repeated));
  EXPECT_EQ(repeated.sequence(), first.sequence());
  EXPECT_EQ(repeated.losses_size(), first.losses_size());
  EXPECT_EQ(repeated.state(), v1::StageReport::STATE_RUNNING) << "there may be newer points";

  session->Acknowledge();
  v1::StageReport last;
  ASSERT_TRUE(session->Report(&last));
  EXPECT_GT(last.sequence(), first.sequence());
  EXPECT_EQ(last.state(), v1::StageReport::STATE_DONE);
  int64_t samples = 0, evaluated = 0;
  for (const v1::StageReport* report : {&first, &last}) {
    for (const v1::LossPoint& point : report->losses()) samples += point.samples();
    for (const v1::EvaluationResult& e : report->evaluations()) evaluated += e.samples();
  }
  EXPECT_EQ(samples, job_.trained_samples());
  EXPECT_EQ(evaluated, 11 * job_.spec().epochs);
  session->Acknowledge();
  ASSERT_TRUE(session->Report(&last));
  EXPECT_EQ(last.state(), v1::StageReport::STATE_DONE);
  EXPECT_EQ(last.losses_size() + last.evaluations_size(), 0);
}

TEST_F(StageSessionTest, AnAbortBeforehandIsNotForgotten) {
  auto session = Session(1);
  session->Abort(absl::CancelledError("not wanted"));
  EXPECT_EQ(session->Prepare().message(), "not wanted");
  EXPECT_EQ(session->Start().message(), "not wanted");
  EXPECT_TRUE(session->WaitStopped(Duration::zero()));

  session = Session(1);
  ASSERT_OK(session->Prepare());
  session->Abort(absl::CancelledError("not wanted"));
  EXPECT_EQ(session->Start().message(), "not wanted");
}

// Whenever it comes: before the handshakes begin, between them, or while they wait.
TEST_F(StageSessionTest, AbortEndsAStartThatWaitsForItsNeighbours) {
  for (int i = 0; i < 20; ++i) {
    auto session = Session(3);
    ASSERT_OK(session->Prepare());
    absl::Status started;
    std::thread starter([&] { started = session->Start(); });
    for (int k = 0; k < i; ++k) std::this_thread::yield();
    session->Abort(absl::CancelledError("not wanted"));
    EXPECT_TRUE(session->WaitStopped(kTestPatience));
    starter.join();
    EXPECT_EQ(started.message(), "not wanted");
    session->Release();
    EXPECT_EQ(device_->allocated_bytes(), 0);
  }
}

TEST_F(StageSessionTest, ANeighbourThatCannotBeReachedEndsTheStartSoon) {
  auto there = Connector::Create({});
  ASSERT_OK(there.status());
  DataAddress gone = (*there)->address();
  gone.process_id = "another";
  gone.unix_name.clear();
  there->reset();
  StageSession session(resources_, job_.Request(0, {connector_->address(), gone}));
  ASSERT_OK(session.Prepare());
  const absl::Status started = session.Start();
  EXPECT_EQ(started.code(), absl::StatusCode::kUnavailable) << started.ToString();
  v1::StageReport report;
  ASSERT_TRUE(session.Report(&report));
  EXPECT_EQ(report.state(), v1::StageReport::STATE_FAILED);
  EXPECT_EQ(report.failure().reason(), "PEER_LOST");
  EXPECT_EQ(report.failure().operation(), "opening channels");
  EXPECT_EQ(report.failure().worker_id(), "w0");
}

TEST_F(StageSessionTest, AbortEndsARunWithItsCause) {
  job_.spec().epochs = 20000;
  auto session = Session(1);
  ASSERT_OK(session->Prepare());
  ASSERT_OK(session->Start());
  EXPECT_FALSE(session->IsStuck(Duration::zero())) << "nobody has told it to stop";
  session->Abort(absl::CancelledError("enough"));
  session->Abort(absl::CancelledError("the second cause"));
  ASSERT_TRUE(session->WaitStopped(kTestPatience));
  EXPECT_FALSE(session->IsStuck(Duration::zero()));
  v1::StageReport report;
  ASSERT_TRUE(session->Report(&report));
  EXPECT_EQ(report.state(), v1::StageReport::STATE_FAILED);
  EXPECT_EQ(report.failure().message(), "enough");
  EXPECT_EQ(report.failure().code(), static_cast<int>(absl::StatusCode::kCancelled));
}

TEST_F(StageSessionTest, DestructionEndsARun) {
  job_.spec().epochs = 20000;
  auto session = Session(1);
  ASSERT_OK(session->Prepare());
  ASSERT_OK(session->Start());
  session.reset();
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST_F(StageSessionTest, AForeignProgramIsRefused) {
  v1::PrepareStageRequest request = job_.Request(0, {connector_->address()});
  request.mutable_job()->mutable_run()->set_batch_size(4);
  StageSession session(resources_, request);
  EXPECT_EQ(session.Prepare().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->allocated_bytes(), 0);
  // The same numbers, but other weights.
  request = job_.Request(0, {connector_->address()});
  request.mutable_program()->set_policy("vsync");
  StageSession other(resources_, request);
  EXPECT_THAT(other.Prepare(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("the program's weight policy is vsync")));
}

}  // namespace
}  // namespace pipedream
