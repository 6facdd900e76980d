// A coordinator that does what a test says, and jobs for workers that report to it.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/mutex.h"
#include "common/base/sha256.h"
#include "common/codec/job_codec.h"
#include "common/codec/plan_codec.h"
#include "common/codec/schedule_codec.h"
#include "common/rpc/grpc_channel.h"
#include "common/rpc/grpc_server.h"
#include "common/schedule/schedules.h"
#include "pipedream/v1/coordinator.grpc.pb.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"
#include "worker/service/address_codec.h"

namespace pipedream {

// Far more than anything here takes; a test that needs it has failed.
inline constexpr Duration kTestPatience = std::chrono::seconds(20);

class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "worker-test-XXXXXX").string()) {
    PIPEDREAM_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Thread-safe. Hooks run on gRPC threads.
class FakeCoordinator : public v1::CoordinatorService::Service {
 public:
  FakeCoordinator() {
    auto server = RpcServer::Start({}, {this});
    PIPEDREAM_CHECK(server.ok());
    server_ = *std::move(server);
    address_ = server_->address();
  }
  ~FakeCoordinator() override { Stop(); }
  const std::string& address() const { return address_; }
  void Stop() {
    if (server_) server_->Shutdown(std::chrono::milliseconds(10));
    server_.reset();
  }

  std::string AddBlob(std::string content) {
    std::string hash = Sha256Hex(content);
    MutexLock lock(mutex_);
    blobs_[hash] = std::move(content);
    return hash;
  }

  using HeartbeatHook =
      std::function<grpc::Status(const v1::HeartbeatRequest&, v1::HeartbeatResponse*)>;
  // Answers of heartbeats, and what downloads do first. What they use must outlive the worker.
  void OnHeartbeat(HeartbeatHook hook) {
    MutexLock lock(mutex_);
    on_heartbeat_ = std::move(hook);
  }
  void OnDownload(std::function<void()> hook) {
    MutexLock lock(mutex_);
    on_download_ = std::move(hook);
  }

  int downloads() const {
    MutexLock lock(mutex_);
    return downloads_;
  }
  std::vector<v1::Worker> registrations() const {
    MutexLock lock(mutex_);
    return registrations_;
  }
  int64_t heartbeats() const {
    MutexLock lock(mutex_);
    return static_cast<int64_t>(heartbeats_.size());
  }
  // Waits until one of the heartbeats from `first` on is as wanted.
  bool AwaitHeartbeat(const std::function<bool(const v1::HeartbeatRequest&)>& wanted,
                      int64_t first = 0) {
    const Duration deadline = SystemClock()->Now() + kTestPatience;
    MutexLock lock(mutex_);
    size_t next = static_cast<size_t>(first);
    while (true) {
      for (; next < heartbeats_.size(); ++next)
        if (wanted(heartbeats_[next])) return true;
      const Duration left = deadline - SystemClock()->Now();
      if (left <= Duration::zero()) return false;
      changed_.WaitFor(mutex_, left);
    }
  }
  bool AwaitRegistrations(size_t count) {
    const Duration deadline = SystemClock()->Now() + kTestPatience;
    MutexLock lock(mutex_);
    while (registrations_.size() < count) {
      const Duration left = deadline - SystemClock()->Now();
      if (left <= Duration::zero()) return false;
      changed_.WaitFor(mutex_, left);
    }
    return true;
  }

  grpc::Status RegisterWorker(grpc::ServerContext*, const v1::RegisterWorkerRequest* request,
                              v1::RegisterWorkerResponse* response) override {
    MutexLock lock(mutex_);
    registrations_.push_back(request->worker());
    response->set_worker_id(request->worker().id().empty() ? "worker-7" : request->worker().id());
    response->set_incarnation(static_cast<int64_t>(registrations_.size()));
    response->set_lease_s(3);
    response->set_heartbeat_s(0.01);
    changed_.NotifyAll();
    return grpc::Status::OK;
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override {
    HeartbeatHook hook;
    {
      MutexLock lock(mutex_);
      heartbeats_.push_back(*request);
      changed_.NotifyAll();
      hook = on_heartbeat_;
    }
    return hook ? hook(*request, response) : grpc::Status::OK;
  }
  grpc::Status DownloadBlob(grpc::ServerContext*, const v1::DownloadBlobRequest* request,
                            grpc::ServerWriter<v1::BlobChunk>* writer) override {
    std::string content;
    std::function<void()> hook;
    {
      MutexLock lock(mutex_);
      ++downloads_;
      changed_.NotifyAll();
      auto it = blobs_.find(request->sha256());
      if (it == blobs_.end()) return {grpc::StatusCode::NOT_FOUND, "no such blob"};
      content = it->second.substr(static_cast<size_t>(request->offset()));
      hook = on_download_;
    }
    if (hook) hook();
    v1::BlobChunk chunk;
    constexpr size_t kChunk = 64 << 10;
    for (size_t at = 0; at < content.size(); at += kChunk) {
      chunk.set_data(content.substr(at, kChunk));
      if (!writer->Write(chunk)) break;
    }
    return grpc::Status::OK;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> blobs_ PD_GUARDED_BY(mutex_);
  std::vector<v1::Worker> registrations_ PD_GUARDED_BY(mutex_);
  std::vector<v1::HeartbeatRequest> heartbeats_ PD_GUARDED_BY(mutex_);
  int downloads_ PD_GUARDED_BY(mutex_) = 0;
  HeartbeatHook on_heartbeat_ PD_GUARDED_BY(mutex_);
  std::function<void()> on_download_ PD_GUARDED_BY(mutex_);
  std::unique_ptr<RpcServer> server_;
  std::string address_;
};

// A small job whose files the coordinator holds.
class TestJob {
 public:
  explicit TestJob(FakeCoordinator* coordinator)
      : files_({.batch_norm = true, .dropout = true, .train_samples = 37}) {
    spec_ = files_.Spec();
    spec_.model = Upload(coordinator, "model.onnx");
    for (const char* split : {"train", "test"})
      for (const char* name : {"x", "y"}) {
        const FileReference file = Upload(coordinator, std::string(split) + "-" + name + ".npy");
        spec_.data_files.push_back(file);
        ColumnSpec column;
        column.name = name;
        column.path = file.path;
        (split == std::string("train") ? spec_.train_columns : spec_.evaluation_columns)
            .push_back(column);
      }
  }

  JobSpec& spec() { return spec_; }
  const SmallJob& files() const { return files_; }

  v1::JobContext Context(const std::string& id, int64_t attempt) const {
    v1::JobContext job;
    job.set_job_id(id);
    job.set_attempt(attempt);
    *job.mutable_spec() = ToProto(spec_);
    *job.mutable_run() = ToProto(Run());
    return job;
  }

  // Stage `stage` of a straight pipeline on workers at `addresses`.
  v1::PrepareStageRequest Request(int stage, const std::vector<DataAddress>& addresses,
                                  const std::string& id = "job-1", int64_t attempt = 1) const {
    const int stages = static_cast<int>(addresses.size());
    Plan plan;
    plan.schedule = spec_.schedule;
    plan.rule = "paper";
    const std::vector<int> stage_of = files_.EvenStages(stages);
    for (int s = 0; s < stages; ++s) {
      PlanStage part;
      for (size_t node = 0; node < stage_of.size(); ++node)
        if (stage_of[node] == s) part.nodes.push_back(static_cast<int>(node));
      part.workers = {"w" + std::to_string(s)};
      part.warmup = stages - 1 - s;
      part.versions = stages - s;
      plan.stages.push_back(std::move(part));
    }
    auto programs = MakePrograms(spec_.schedule,
                                 MakeScheduleShape(Run(), plan.replicas(), plan.warmup(), false));
    PIPEDREAM_CHECK(programs.ok());
    v1::PrepareStageRequest request;
    *request.mutable_job() = Context(id, attempt);
    *request.mutable_plan() = ToProto(plan);
    *request.mutable_program() = ToProto((*programs)[stage]);
    for (int s = 0; s < stages; ++s) {
      v1::StageMember& member = *request.add_members();
      member.set_stage(s);
      member.set_worker_id(plan.stages[s].workers[0]);
      *member.mutable_address() = ToProto(addresses[s]);
    }
    request.set_secret("secret");
    return request;
  }

  RunShape Run() const {
    return MakeRunShape(spec_, files_.train()->rows(), files_.evaluation()->rows());
  }
  int64_t trained_samples() const { return files_.train()->rows() * spec_.epochs; }

 private:
  FileReference Upload(FakeCoordinator* coordinator, const std::string& name) {
    std::string content = ReadFile(files_.folder() + "/" + name, 1 << 24).value_or("");
    FileReference file{name, "", static_cast<int64_t>(content.size())};
    file.sha256 = coordinator->AddBlob(std::move(content));
    return file;
  }

  SmallJob files_;
  JobSpec spec_;
};

inline bool Never() { return false; }

}  // namespace pipedream
