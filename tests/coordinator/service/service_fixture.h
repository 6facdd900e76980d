// A coordinator behind a real server on loopback, with workers that do at once what they are told.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/grpc_server.h"
#include "coordinator/launch/worker_client.h"
#include "coordinator/service/coordinator.h"
#include "coordinator/service/coordinator_service.h"
#include "pipedream/v1/coordinator.grpc.pb.h"

namespace pipedream {

// Keeps what was asked of any worker; stage s's weights are parameter number s, all ones.
class FakeWorkers : public WorkerClients {
 public:
  absl::StatusOr<std::shared_ptr<WorkerClient>> Get(const WorkerInfo& worker) override;
  void Note(const std::string& line);
  std::vector<std::string> notes();

 private:
  Mutex mutex_;
  std::vector<std::string> notes_ PD_GUARDED_BY(mutex_);
};

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  void StartCoordinator();
  void StopCoordinator();

  // A model x[N, 4] -> Gemm(w0) -> Relu -> Gemm(w1) -> logits[N, 3], 20 rows of data; uploaded.
  v1::JobSpec MakeSpec(int workers);
  // Uploads; returns the reference.
  v1::FileReference Upload(const std::string& path, const std::string& content);
  std::string WriteModel();
  std::string WriteNpy(const std::string& type, const std::vector<int64_t>& shape,
                       const std::string& bytes);

  absl::Status Submit(const v1::JobSpec& spec, const std::string& key, v1::SubmitJobResponse* out,
                      bool validate_only = false);
  v1::Job Get(const std::string& id);
  absl::Status Cancel(const std::string& id, v1::Job* out);
  int64_t Register(const std::string& id);
  // drop_stage, or the error.
  absl::StatusOr<bool> Beat(const std::string& worker, int64_t incarnation,
                            const v1::StageReport* report = nullptr);
  // Watches until the job is in `state` or over; the last seen job.
  v1::Job WaitFor(const std::string& id, v1::JobState state);
  std::vector<v1::JobEvent> WatchToEnd(const std::string& id, int64_t after);
  // Submits for w1 and w2, which are registered, and waits until it runs.
  v1::Job RunningJob();
  v1::StageReport Report(const std::string& job, v1::StageReport::State state);

  FakeClock clock_;
  std::string folder_;
  CoordinatorOptions options_;
  FakeWorkers* workers_ = nullptr;  // of the coordinator
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::CoordinatorService::Stub> stub_;
  std::map<std::string, int64_t> incarnations_;
};

}  // namespace pipedream
