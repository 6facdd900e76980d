// One worker: one device, at most one stage, a lease with the coordinator.
//
// Threads: gRPC handlers call in; one thread of its own registers and sends heartbeats; each stage
// has its executor thread (StageSession); the transport has its own.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/plan/profile.h"
#include "common/rpc/grpc_server.h"
#include "pipedream/v1/coordinator.grpc.pb.h"
#include "worker/service/job_files.h"
#include "worker/service/stage_session.h"
#include "worker/service/worker_options.h"

namespace pipedream {

// An abort that does not finish in its time limit leaves a device that only a new process can use.
inline constexpr int kStuckExitCode = 75;

class Worker {
 public:
  // Binds its ports and starts; registers in the background for as long as it takes.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options);
  ~Worker();

  const std::string& control_address() const;
  // Stops the stage, leaves the coordinator. Idempotent.
  void Shutdown();

  // What WorkerService's handlers do. Thread-safe.
  absl::StatusOr<Profile> ProfileJob(const v1::JobContext& job, std::function<bool()> cancelled);
  absl::StatusOr<int64_t> PrepareStage(const v1::PrepareStageRequest& request);
  absl::Status StartStage(const std::string& job_id, int64_t attempt);
  absl::Status AbortStage(const std::string& job_id, int64_t attempt, const std::string& cause);
  absl::StatusOr<std::shared_ptr<StageSession>> Session(const std::string& job_id, int64_t attempt);
  Connector* connector() { return connector_.get(); }

 private:
  explicit Worker(const WorkerOptions& options);
  absl::Status Init();
  void RunLease();
  bool Register();
  void Heartbeat();
  // Aborts and forgets the stage; the process exits if it does not stop.
  void DropSession(const std::string& cause);

  const WorkerOptions options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<KernelBackend> backend_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<v1::CoordinatorService::StubInterface> coordinator_;
  std::unique_ptr<JobFiles> files_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<RpcServer> server_;

  // Lease thread only.
  bool registered_ = false;
  int64_t incarnation_ = 0;
  Duration heartbeat_period_ = std::chrono::milliseconds(500);
  Duration last_contact_{};

  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ PD_GUARDED_BY(mutex_) = false;
  bool busy_ PD_GUARDED_BY(mutex_) = false;  // profiling or preparing
  std::string id_ PD_GUARDED_BY(mutex_);
  std::shared_ptr<StageSession> session_ PD_GUARDED_BY(mutex_);
  std::thread lease_;
};

}  // namespace pipedream
