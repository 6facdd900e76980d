// A coordinator in this process that answers as a test tells it to.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/grpc_status.h"
#include "pipedream/v1/coordinator.grpc.pb.h"

namespace pipedream {

// Thread-safe.
class FakeCoordinator : public v1::CoordinatorService::Service {
 public:
  // What it answers. Later settings replace earlier ones.
  void SetVersion(std::string version) {
    MutexLock lock(mutex_);
    version_ = std::move(version);
  }
  void SetVerification(const v1::VerifyReport& report) {
    MutexLock lock(mutex_);
    verification_ = report;
  }
  void SetJob(const v1::Job& job) {
    MutexLock lock(mutex_);
    jobs_[job.id()] = job;
  }
  void SetWatch(const std::string& id, std::vector<v1::WatchJobResponse> responses) {
    MutexLock lock(mutex_);
    watch_[id] = std::move(responses);
  }
  // Returns its hash.
  std::string AddBlob(std::string content) {
    std::string hash = Sha256Hex(content);
    MutexLock lock(mutex_);
    blobs_[hash] = std::move(content);
    return hash;
  }
  void SetWorkers(std::vector<v1::Worker> workers) {
    MutexLock lock(mutex_);
    workers_ = std::move(workers);
  }
  void SetSubmitError(absl::Status error) {
    MutexLock lock(mutex_);
    submit_error_ = std::move(error);
  }
  // Profiles and topology that PlanJob answers with.
  void SetMeasured(v1::PlanJobResponse measured) {
    MutexLock lock(mutex_);
    measured_ = std::move(measured);
  }
  void SetPlan(const v1::Plan& plan) {
    MutexLock lock(mutex_);
    plan_ = plan;
  }

  // What it was sent.
  std::map<std::string, std::string> blobs() const {
    MutexLock lock(mutex_);
    return blobs_;
  }
  std::vector<v1::SubmitJobRequest> submitted() const {
    MutexLock lock(mutex_);
    return submitted_;
  }
  std::set<int> states_asked() const {
    MutexLock lock(mutex_);
    return states_asked_;
  }

  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    MutexLock lock(mutex_);
    response->set_version(version_);
    return grpc::Status::OK;
  }
  grpc::Status FindBlobs(grpc::ServerContext*, const v1::FindBlobsRequest* request,
                         v1::FindBlobsResponse* response) override {
    MutexLock lock(mutex_);
    for (const auto& hash : request->sha256()) {
      if (blobs_.count(hash)) response->add_present(hash);
    }
    return grpc::Status::OK;
  }
  grpc::Status UploadBlob(grpc::ServerContext*, grpc::ServerReader<v1::UploadBlobRequest>* reader,
                          v1::UploadBlobResponse*) override {
    v1::UploadBlobRequest request;
    std::string hash, content;
    while (reader->Read(&request)) {
      if (request.has_header()) hash = request.header().sha256();
      content += request.data();
    }
    if (Sha256Hex(content) != hash) return grpc::Status(grpc::StatusCode::DATA_LOSS, "hash");
    MutexLock lock(mutex_);
    blobs_[hash] = content;
    return grpc::Status::OK;
  }
  grpc::Status DownloadBlob(grpc::ServerContext*, const v1::DownloadBlobRequest* request,
                            grpc::ServerWriter<v1::BlobChunk>* writer) override {
    v1::BlobChunk chunk;
    {
      MutexLock lock(mutex_);
      auto blob = blobs_.find(request->sha256());
      if (blob == blobs_.end()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such blob");
      chunk.set_data(blob->second.substr(request->offset()));
    }
    writer->Write(chunk);
    return grpc::Status::OK;
  }
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override {
    MutexLock lock(mutex_);
    submitted_.push_back(*request);
    if (!submit_error_.ok()) return ToGrpcStatus(submit_error_);
    response->mutable_job()->set_id("new-job");
    response->mutable_job()->set_state(v1::JOB_STATE_QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status PlanJob(grpc::ServerContext*, const v1::PlanJobRequest* request,
                       v1::PlanJobResponse* response) override {
    MutexLock lock(mutex_);
    *response = measured_;
    if (!request->measure_only()) *response->mutable_plan() = plan_;
    response->add_warnings("links are uneven");
    return grpc::Status::OK;
  }
  grpc::Status VerifyJob(grpc::ServerContext*, const v1::VerifyJobRequest* request,
                         v1::VerifyReport* report) override {
    MutexLock lock(mutex_);
    *report = verification_;
    report->set_replayed(request->minibatches());
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* job) override {
    MutexLock lock(mutex_);
    if (!jobs_.count(request->job_id())) return ToGrpcStatus(NotFound("gone"));
    *job = jobs_[request->job_id()];
    return grpc::Status::OK;
  }
  // Two jobs a page.
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    MutexLock lock(mutex_);
    for (int state : request->states()) states_asked_.insert(state);
    auto job = jobs_.lower_bound(request->page_token());
    for (int i = 0; i < 2 && job != jobs_.end(); ++i, ++job) *response->add_jobs() = job->second;
    if (job != jobs_.end()) response->set_next_page_token(job->first);
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    std::vector<v1::WatchJobResponse> responses;
    {
      MutexLock lock(mutex_);
      if (!watch_.count(request->job_id())) return ToGrpcStatus(NotFound("gone"));
      responses = watch_[request->job_id()];
    }
    for (v1::WatchJobResponse& response : responses) {
      auto* events = response.mutable_events();
      for (int i = events->size() - 1; i >= 0; --i) {
        if (events->Get(i).sequence() <= request->after_sequence()) {
          events->DeleteSubrange(i, 1);
        }
      }
      writer->Write(response);
    }
    return grpc::Status::OK;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::Job* job) override {
    MutexLock lock(mutex_);
    if (!jobs_.count(request->job_id())) return ToGrpcStatus(NotFound("gone"));
    jobs_[request->job_id()].set_state(v1::JOB_STATE_CANCELLED);
    *job = jobs_[request->job_id()];
    return grpc::Status::OK;
  }
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    MutexLock lock(mutex_);
    for (const v1::Worker& worker : workers_) *response->add_workers() = worker;
    return grpc::Status::OK;
  }

 private:
  mutable Mutex mutex_;
  std::string version_ PD_GUARDED_BY(mutex_) = "0.1.0";
  std::map<std::string, v1::Job> jobs_ PD_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<v1::WatchJobResponse>> watch_ PD_GUARDED_BY(mutex_);
  std::map<std::string, std::string> blobs_ PD_GUARDED_BY(mutex_);
  std::vector<v1::Worker> workers_ PD_GUARDED_BY(mutex_);
  absl::Status submit_error_ PD_GUARDED_BY(mutex_);
  v1::PlanJobResponse measured_ PD_GUARDED_BY(mutex_);
  v1::Plan plan_ PD_GUARDED_BY(mutex_);
  v1::VerifyReport verification_ PD_GUARDED_BY(mutex_);
  std::vector<v1::SubmitJobRequest> submitted_ PD_GUARDED_BY(mutex_);
  std::set<int> states_asked_ PD_GUARDED_BY(mutex_);
};

}  // namespace pipedream
