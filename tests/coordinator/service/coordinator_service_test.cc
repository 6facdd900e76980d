#include "coordinator/service/coordinator_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/rpc/grpc_status.h"
#include "tests/coordinator/service/service_fixture.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ServiceTest, AJobRunsFromSubmitToTheTrainedModel) {
  v1::Job job = RunningJob();
  EXPECT_EQ(job.plan().stages_size(), 2);
  EXPECT_EQ(job.run().train_samples(), 20);
  v1::StageReport running = Report(job.id(), v1::StageReport::STATE_RUNNING);
  v1::LossPoint* loss = running.add_losses();
  loss->set_loss_sum(10);
  loss->set_samples(5);
  running.mutable_progress()->set_operation("F1");
  ASSERT_OK_AND_ASSIGN(bool drop, Beat("w2", incarnations_["w2"], &running));
  EXPECT_FALSE(drop);
  v1::StageReport done = Report(job.id(), v1::StageReport::STATE_DONE);
  ASSERT_OK(Beat("w1", incarnations_["w1"], &done));
  ASSERT_OK(Beat("w2", incarnations_["w2"], &done));
  job = WaitFor(job.id(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_DOUBLE_EQ(job.progress().loss(), 2);
  EXPECT_EQ(job.progress().minibatch(), 4);
  ASSERT_EQ(job.result_sha256().size(), 64u);

  v1::DownloadBlobRequest request;
  request.set_sha256(job.result_sha256());
  grpc::ClientContext context;
  auto reader = stub_->DownloadBlob(&context, request);
  v1::BlobChunk chunk;
  std::string bytes;
  while (reader->Read(&chunk)) bytes += chunk.data();
  EXPECT_OK(FromGrpcStatus(reader->Finish()));
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes));
  ASSERT_EQ(model.graph().initializer_size(), 2);
  EXPECT_EQ(model.graph().initializer(0).name(), "w0");
  std::vector<float> ones(20, 1.0f);
  std::string expected(reinterpret_cast<const char*>(ones.data()), 80);
  const onnx::TensorProto& w0 = model.graph().initializer(0);
  if (w0.has_raw_data()) {
    EXPECT_EQ(w0.raw_data(), expected);
  } else {
    EXPECT_THAT(w0.float_data(), testing::ElementsAreArray(ones));
  }
}

class VerifyServiceTest : public ServiceTest {
 protected:
  absl::Status Verify(const std::string& id, v1::VerifyReport* out) {
    v1::VerifyJobRequest request;
    request.set_job_id(id);
    request.set_minibatches(3);
    grpc::ClientContext context;
    return FromGrpcStatus(stub_->VerifyJob(&context, request, out));
  }
  void ExpectRefused(const std::string& id, absl::StatusCode code, const std::string& reason,
                     const std::string& why) {
    v1::VerifyReport report;
    absl::Status status = Verify(id, &report);
    EXPECT_THAT(status, StatusIs(code, HasSubstr(why)));
    EXPECT_EQ(ReasonOf(status), reason);
  }
  // Both stages end; each sends a ledger of its own if `ledger`.
  v1::Job Finish(const v1::Job& job, bool ledger) {
    for (int stage : {0, 1}) {
      v1::StageReport done = Report(job.id(), v1::StageReport::STATE_DONE);
      if (stage == 1) {
        done.add_losses()->set_loss_sum(10);
        done.mutable_losses(0)->set_samples(5);
      }
      if (ledger) done.add_ledger()->set_stage(stage);
      const std::string worker = stage == 0 ? "w1" : "w2";
      EXPECT_OK(Beat(worker, incarnations_[worker], &done));
    }
    return WaitFor(job.id(), v1::JOB_STATE_SUCCEEDED);
  }
  // A worker that had a stage is idle once it has confirmed that it dropped it.
  void AwaitIdle() {
    bool busy = true;
    while (busy) {
      v1::ListWorkersResponse response;
      grpc::ClientContext context;
      ASSERT_OK(FromGrpcStatus(stub_->ListWorkers(&context, {}, &response)));
      busy = std::ranges::any_of(response.workers(), [](const v1::Worker& worker) {
        return worker.state() == v1::Worker::STATE_BUSY;
      });
    }
  }
};

TEST_F(VerifyServiceTest, ARunIsVerifiedOnAnIdleWorker) {
  const v1::Job job = Finish(RunningJob(), true);
  AwaitIdle();
  v1::VerifyReport report;
  ASSERT_OK(Verify(job.id(), &report));
  EXPECT_TRUE(report.verified());
  EXPECT_EQ(report.schedule(), "pipedream");
  EXPECT_EQ(report.minibatches(), 1) << "points of the curve";
  EXPECT_EQ(report.replayed(), 3) << "as asked for";
  ASSERT_EQ(report.checks_size(), 2) << "ledgers";
  EXPECT_EQ(report.checks(1).name(), "stage 1");
  EXPECT_EQ(report.checks(1).detail(), job.result_sha256());
  EXPECT_THAT(workers_->notes(), Contains("verify w1"));
  AwaitIdle();
}

TEST_F(VerifyServiceTest, SaysWhyARunCannotBeVerified) {
  using enum absl::StatusCode;
  ExpectRefused("job-x", kNotFound, "", "job-x");
  const v1::Job job = RunningJob();
  ExpectRefused(job.id(), kFailedPrecondition, "JOB_NOT_OVER", "is RUNNING");
  Finish(job, false);
  ExpectRefused(job.id(), kFailedPrecondition, "NO_LEDGER", "kept no ledger");
  v1::SubmitJobResponse next;
  ASSERT_OK(Submit(MakeSpec(3), "", &next));
  v1::Job cancelled;
  ASSERT_OK(Cancel(next.job().id(), &cancelled));
  ExpectRefused(next.job().id(), kFailedPrecondition, "JOB_NOT_SUCCEEDED", "is CANCELLED");
}

TEST_F(VerifyServiceTest, WithoutAnIdleWorkerItSaysSo) {
  const v1::Job job = Finish(RunningJob(), true);
  AwaitIdle();
  v1::SubmitJobResponse next;
  ASSERT_OK(Submit(MakeSpec(2), "", &next));
  WaitFor(next.job().id(), v1::JOB_STATE_RUNNING);
  ExpectRefused(job.id(), absl::StatusCode::kFailedPrecondition, "NO_IDLE_WORKER",
                "none of the 2 registered is idle");
}

TEST_F(VerifyServiceTest, AJobThatFailsKeepsTheLedgersThatCame) {
  const v1::Job job = RunningJob();
  v1::StageReport failed = Report(job.id(), v1::StageReport::STATE_FAILED);
  failed.mutable_failure()->set_reason("NON_FINITE_LOSS");
  failed.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kOutOfRange));
  failed.add_ledger()->set_stage(1);
  ASSERT_OK(Beat("w2", incarnations_["w2"], &failed));
  const std::string hash = WaitFor(job.id(), v1::JOB_STATE_FAILED).ledger_sha256();
  EXPECT_EQ(hash, Sha256Hex("stage 1 replica 0\n"));
  ExpectRefused(job.id(), absl::StatusCode::kFailedPrecondition, "JOB_NOT_SUCCEEDED", "is FAILED");
  StopCoordinator();  // ends what still writes
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/blobs/" + hash.substr(0, 2) + "/" + hash));
}

TEST_F(ServiceTest, OneKeyIsOneJob) {
  v1::JobSpec spec = MakeSpec(2);
  v1::SubmitJobResponse first, second, other;
  ASSERT_OK(Submit(spec, "key", &first));
  EXPECT_FALSE(first.existed());
  ASSERT_OK(Submit(spec, "key", &second));
  EXPECT_TRUE(second.existed());
  EXPECT_EQ(first.job().id(), second.job().id());
  spec.set_epochs(2);
  absl::Status status = Submit(spec, "key", &other);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'key'")));
  EXPECT_EQ(ReasonOf(status), "IDEMPOTENCY_KEY_REUSED");
  ASSERT_OK(Submit(spec, "", &other));
  ASSERT_OK(Submit(spec, "", &second));
  EXPECT_NE(other.job().id(), second.job().id());
}

TEST_F(ServiceTest, WatchingSendsEveryEventAndEndsWithTheJob) {
  v1::Job job = RunningJob();
  v1::Job cancelled;
  ASSERT_OK(Cancel(job.id(), &cancelled));
  EXPECT_EQ(cancelled.state(), v1::JOB_STATE_CANCELLED);
  std::vector<v1::JobEvent> events = WatchToEnd(job.id(), 0);
  ASSERT_GE(events.size(), 7u);
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(events[i].sequence(), static_cast<int64_t>(i) + 1);
  EXPECT_EQ(events.front().message(), "submitted");
  EXPECT_EQ(events.back().message(), "CANCELLED: cancelled by the user");
  EXPECT_EQ(WatchToEnd(job.id(), 3).size(), events.size() - 3);
}

TEST_F(ServiceTest, WatchingAnUnknownJobIsNotFound) {
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_job_id("job-0");
  auto reader = stub_->WatchJob(&context, request);
  v1::WatchJobResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_THAT(FromGrpcStatus(reader->Finish()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-0")));
}

TEST_F(ServiceTest, CancelIsIdempotentButNotForJobsThatEndedOtherwise) {
  v1::Job job = RunningJob(), out;
  ASSERT_OK(Cancel(job.id(), &out));
  ASSERT_OK(Cancel(job.id(), &out));
  EXPECT_THAT(Cancel("job-0", &out), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-0")));
  v1::JobSpec spec = MakeSpec(9);
  spec.set_start_timeout_s(1);
  v1::SubmitJobResponse response;
  ASSERT_OK(Submit(spec, "", &response));
  clock_.Advance(std::chrono::seconds(2));
  v1::Job failed = WaitFor(response.job().id(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(failed.failure().reason(), "UNSATISFIABLE");
  absl::Status status = Cancel(failed.id(), &out);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("FAILED")));
  EXPECT_EQ(ReasonOf(status), "JOB_OVER");
}

TEST_F(ServiceTest, ALostWorkerFailsTheJobAndFreesTheOther) {
  v1::Job job = RunningJob();
  v1::StageReport report = Report(job.id(), v1::StageReport::STATE_RUNNING);
  report.mutable_progress()->set_operation("B7");
  ASSERT_OK(Beat("w2", incarnations_["w2"], &report));
  clock_.Advance(std::chrono::seconds(2));
  ASSERT_OK(Beat("w1", incarnations_["w1"], &report));
  clock_.Advance(std::chrono::milliseconds(1100));
  job = WaitFor(job.id(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.failure().reason(), "WORKER_LOST");
  EXPECT_EQ(job.failure().worker_id(), "w2");
  EXPECT_EQ(job.failure().stage(), 1);
  EXPECT_EQ(job.failure().operation(), "B7");
  // The survivor is told to stop, the lost one that it has no lease.
  ASSERT_OK_AND_ASSIGN(bool drop, Beat("w1", incarnations_["w1"], &report));
  EXPECT_TRUE(drop);
  EXPECT_THAT(Beat("w2", incarnations_["w2"], &report),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("register anew")));
  // Another job runs on what is left and what comes back.
  Register("w2");
  v1::SubmitJobResponse response;
  ASSERT_OK(Submit(MakeSpec(2), "", &response));
  WaitFor(response.job().id(), v1::JOB_STATE_RUNNING);
  EXPECT_THAT(workers_->notes(), Contains("abort w1"));
}

TEST_F(ServiceTest, ListsPagesAndWorkers) {
  v1::Job running = RunningJob();
  v1::SubmitJobResponse queued;
  ASSERT_OK(Submit(MakeSpec(2), "", &queued));
  v1::ListJobsRequest request;
  request.set_page_size(1);
  v1::ListJobsResponse page;
  {
    grpc::ClientContext context;
    ASSERT_OK(FromGrpcStatus(stub_->ListJobs(&context, request, &page)));
  }
  ASSERT_EQ(page.jobs_size(), 1);
  EXPECT_EQ(page.jobs(0).id(), queued.job().id());
  EXPECT_THAT(page.jobs(0).reason(), HasSubstr("needs 2 idle workers, 0 are idle"));
  request.set_page_token(page.next_page_token());
  {
    grpc::ClientContext context;
    ASSERT_OK(FromGrpcStatus(stub_->ListJobs(&context, request, &page)));
  }
  ASSERT_EQ(page.jobs_size(), 1);
  EXPECT_EQ(page.jobs(0).id(), running.id());
  EXPECT_EQ(page.next_page_token(), "");

  v1::ListWorkersResponse workers;
  grpc::ClientContext context;
  ASSERT_OK(FromGrpcStatus(stub_->ListWorkers(&context, {}, &workers)));
  ASSERT_EQ(workers.workers_size(), 2);
  EXPECT_EQ(workers.workers(1).id(), "w2");
  EXPECT_EQ(workers.workers(1).state(), v1::Worker::STATE_BUSY);
  EXPECT_EQ(workers.workers(1).job_id(), running.id());
  EXPECT_EQ(workers.workers(1).stage(), 1);
}

TEST_F(ServiceTest, ARestartFailsWhatRanAndKeepsTheQueue) {
  v1::Job running = RunningJob();
  v1::SubmitJobResponse queued;
  ASSERT_OK(Submit(MakeSpec(2), "key", &queued));
  // As after kill -9: what the store holds is all that is left.
  std::filesystem::copy(folder_ + "/jobs.sqlite", folder_ + "/copy");
  std::filesystem::copy(folder_ + "/jobs.sqlite-wal", folder_ + "/copy-wal");
  StopCoordinator();
  std::filesystem::remove(folder_ + "/jobs.sqlite-wal");
  std::filesystem::rename(folder_ + "/copy", folder_ + "/jobs.sqlite");
  std::filesystem::rename(folder_ + "/copy-wal", folder_ + "/jobs.sqlite-wal");
  StartCoordinator();
  v1::Job failed = Get(running.id());
  EXPECT_EQ(failed.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(failed.failure().reason(), "COORDINATOR_RESTARTED");
  EXPECT_EQ(Get(queued.job().id()).state(), v1::JOB_STATE_QUEUED);
  v1::SubmitJobResponse again;
  ASSERT_OK(Submit(MakeSpec(2), "key", &again));
  EXPECT_EQ(again.job().id(), queued.job().id());
  // A worker that went on is stopped, and serves the queue.
  EXPECT_THAT(Beat("w1", incarnations_["w1"]), StatusIs(absl::StatusCode::kNotFound, testing::_));
  int64_t incarnation = Register("w1");
  v1::StageReport report = Report(running.id(), v1::StageReport::STATE_RUNNING);
  ASSERT_OK_AND_ASSIGN(bool drop, Beat("w1", incarnation, &report));
  EXPECT_TRUE(drop);
  Register("w2");
  WaitFor(queued.job().id(), v1::JOB_STATE_RUNNING);
}

TEST_F(ServiceTest, StoppingEndsRunningJobsAndTheirStages) {
  v1::Job job = RunningJob();
  StopCoordinator();
  StartCoordinator();
  EXPECT_EQ(Get(job.id()).failure().reason(), "COORDINATOR_STOPPED");
}

TEST_F(ServiceTest, PlansWithoutRunning) {
  Register("w1");
  v1::PlanJobRequest request;
  *request.mutable_spec() = MakeSpec(1);
  v1::PlanJobResponse response;
  grpc::ClientContext context;
  ASSERT_OK(FromGrpcStatus(stub_->PlanJob(&context, request, &response)));
  EXPECT_EQ(response.plan().stages_size(), 1);
  ASSERT_EQ(response.profiles_size(), 1);
  EXPECT_EQ(response.profiles(0).step_s(), 0.5);
  EXPECT_EQ(response.topology().devices_size(), 1);
  v1::ListJobsResponse jobs;
  grpc::ClientContext list;
  ASSERT_OK(FromGrpcStatus(stub_->ListJobs(&list, {}, &jobs)));
  EXPECT_EQ(jobs.jobs_size(), 0);
  v1::GetVersionResponse version;
  grpc::ClientContext get;
  ASSERT_OK(FromGrpcStatus(stub_->GetVersion(&get, {}, &version)));
  EXPECT_EQ(version.version(), kVersion);
}

TEST_F(ServiceTest, BadJobsAreRefusedBeforeTheyQueue) {
  struct Case {
    std::string name;
    std::function<void(v1::JobSpec*)> spoil;
    absl::StatusCode code;
    std::string reason;
  };
  auto data = [this](v1::JobSpec* spec, int index, const std::string& content) {
    std::string path = spec->data_files(index).path();
    *spec->mutable_data_files(index) = Upload(path, content);
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  std::vector<Case> cases = {
      {"model not uploaded",
       [](v1::JobSpec* s) { s->mutable_model()->set_sha256(std::string(64, '0')); },
       absl::StatusCode::kFailedPrecondition, "BLOB_MISSING"},
      {"no model at all", [&](v1::JobSpec* s) { *s->mutable_model() = Upload("m.onnx", "junk"); },
       kInvalid, "INVALID_MODEL"},
      {"unknown schedule", [](v1::JobSpec* s) { s->set_schedule("magic"); }, kInvalid, ""},
      {"unknown output", [](v1::JobSpec* s) { s->mutable_loss(0)->set_output("nope"); }, kInvalid,
       "INVALID_SPEC"},
      {"unknown column", [](v1::JobSpec* s) { s->mutable_train_columns(0)->set_name("z"); },
       kInvalid, "INVALID_SPEC"},
      {"batch beyond the data", [](v1::JobSpec* s) { s->set_batch_size(21); }, kInvalid,
       "INVALID_SPEC"},
      {"more stages than nodes", [](v1::JobSpec* s) { s->set_stages(99), s->set_workers(99); },
       kInvalid, "TOO_MANY_STAGES"},
      {"label out of range",
       [&](v1::JobSpec* s) {
         std::vector<int64_t> y(20, 3);
         data(s, 1, WriteNpy("<i8", {20}, std::string(reinterpret_cast<char*>(y.data()), 160)));
       },
       kInvalid, "INVALID_DATA"},
      {"wrong shape",
       [&](v1::JobSpec* s) {
         data(s, 0, WriteNpy("<f4", {20, 5}, std::string(400, '\0')));
       },
       kInvalid, "INVALID_DATA"},
      {"rows disagree",
       [&](v1::JobSpec* s) {
         data(s, 0, WriteNpy("<f4", {19, 4}, std::string(304, '\0')));
       },
       kInvalid, "INVALID_DATA"},
      {"no rows",
       [&](v1::JobSpec* s) {
         data(s, 0, WriteNpy("<f4", {0, 4}, ""));
       },
       kInvalid, "INVALID_DATA"},
      {"column's file is not listed",
       [](v1::JobSpec* s) { s->mutable_train_columns(0)->set_path("/etc/passwd"); }, kInvalid,
       "INVALID_DATA"},
      {"negative epochs", [](v1::JobSpec* s) { s->set_epochs(-1); }, kInvalid, "INVALID_SPEC"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    v1::JobSpec spec = MakeSpec(2);
    c.spoil(&spec);
    v1::SubmitJobResponse response;
    absl::Status status = Submit(spec, "", &response);
    EXPECT_THAT(status, StatusIs(c.code, testing::_));
    if (!c.reason.empty()) {
      EXPECT_EQ(ReasonOf(status), c.reason) << status.ToString();
    }
    EXPECT_FALSE(ReasonOf(status).empty());
  }
  v1::SubmitJobResponse checked;
  ASSERT_OK(Submit(MakeSpec(2), "", &checked, /*validate_only=*/true));
  EXPECT_EQ(checked.job().run().train_samples(), 20);
  v1::ListJobsResponse jobs;
  grpc::ClientContext context;
  ASSERT_OK(FromGrpcStatus(stub_->ListJobs(&context, {}, &jobs)));
  EXPECT_EQ(jobs.jobs_size(), 0);
}

TEST_F(ServiceTest, BlobsAreFoundResumedAndChecked) {
  v1::FileReference file = Upload("f", "hello world");
  v1::FindBlobsRequest find;
  find.add_sha256(file.sha256());
  find.add_sha256(std::string(64, '0'));
  find.add_sha256("../../x");
  v1::FindBlobsResponse found;
  grpc::ClientContext context;
  ASSERT_OK(FromGrpcStatus(stub_->FindBlobs(&context, find, &found)));
  EXPECT_THAT(found.present(), ElementsAre(file.sha256()));
  auto download = [&](int64_t offset, std::string* out) {
    v1::DownloadBlobRequest request;
    request.set_sha256(file.sha256());
    request.set_offset(offset);
    grpc::ClientContext download_context;
    auto reader = stub_->DownloadBlob(&download_context, request);
    v1::BlobChunk chunk;
    while (reader->Read(&chunk)) *out += chunk.data();
    return FromGrpcStatus(reader->Finish());
  };
  std::string rest;
  ASSERT_OK(download(6, &rest));
  EXPECT_EQ(rest, "world");
  EXPECT_THAT(download(12, &rest), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("11 bytes")));
  EXPECT_OK(download(11, &rest));
}

}  // namespace
}  // namespace pipedream
