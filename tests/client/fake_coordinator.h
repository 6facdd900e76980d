// A coordinator in this process that answers as a test tells it to.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/grpc_status.h"
#include "pipedream/v1/coordinator.grpc.pb.h"

namespace pipedream {

class FakeCoordinator : public v1::CoordinatorService::Service {
 public:
  // Set before calls, read after them.
  std::string version = "0.1.0";
  std::map<std::string, v1::Job> jobs;
  std::map<std::string, std::vector<v1::WatchJobResponse>> watch;  // what WatchJob sends
  std::map<std::string, std::string> blobs;
  std::vector<v1::Worker> workers;
  absl::Status submit_error;
  v1::Plan plan;
  std::vector<v1::SubmitJobRequest> submitted;
  std::set<int> states_asked;

  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    response->set_version(version);
    return grpc::Status::OK;
  }
  grpc::Status FindBlobs(grpc::ServerContext*, const v1::FindBlobsRequest* request,
                         v1::FindBlobsResponse* response) override {
    for (const auto& hash : request->sha256()) {
      if (blobs.count(hash)) response->add_present(hash);
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
    blobs[hash] = content;
    return grpc::Status::OK;
  }
  grpc::Status DownloadBlob(grpc::ServerContext*, const v1::DownloadBlobRequest* request,
                            grpc::ServerWriter<v1::BlobChunk>* writer) override {
    if (!blobs.count(request->sha256())) {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such blob");
    }
    v1::BlobChunk chunk;
    chunk.set_data(blobs[request->sha256()].substr(request->offset()));
    writer->Write(chunk);
    return grpc::Status::OK;
  }
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override {
    submitted.push_back(*request);
    if (!submit_error.ok()) return ToGrpcStatus(submit_error);
    response->mutable_job()->set_id("new-job");
    response->mutable_job()->set_state(v1::JOB_STATE_QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status PlanJob(grpc::ServerContext*, const v1::PlanJobRequest*,
                       v1::PlanJobResponse* response) override {
    *response->mutable_plan() = plan;
    response->add_warnings("links are uneven");
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* job) override {
    if (!jobs.count(request->job_id())) return ToGrpcStatus(NotFound("gone"));
    *job = jobs[request->job_id()];
    return grpc::Status::OK;
  }
  // Two jobs a page.
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    for (int state : request->states()) states_asked.insert(state);
    auto job = jobs.lower_bound(request->page_token());
    for (int i = 0; i < 2 && job != jobs.end(); ++i, ++job) *response->add_jobs() = job->second;
    if (job != jobs.end()) response->set_next_page_token(job->first);
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    if (!watch.count(request->job_id())) return ToGrpcStatus(NotFound("gone"));
    for (v1::WatchJobResponse response : watch[request->job_id()]) {
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
    if (!jobs.count(request->job_id())) return ToGrpcStatus(NotFound("gone"));
    jobs[request->job_id()].set_state(v1::JOB_STATE_CANCELLED);
    *job = jobs[request->job_id()];
    return grpc::Status::OK;
  }
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    for (const v1::Worker& worker : workers) *response->add_workers() = worker;
    return grpc::Status::OK;
  }
};

}  // namespace pipedream
