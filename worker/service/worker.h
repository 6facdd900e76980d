// One worker: one device, at most one stage, a lease with the coordinator.
//
// Threads: gRPC handlers call in; one thread of its own registers and sends heartbeats; each stage
// has its executor thread (StageSession); the transport has its own.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/job/verify_report.h"
#include "common/plan/profile.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/grpc_status.h"
#include "pipedream/v1/coordinator.grpc.pb.h"
#include "worker/service/job_file_cache.h"
#include "worker/service/stage_session.h"
#include "worker/service/worker_options.h"

namespace pipedream {

// A stage that does not stop in time leaves a device that only a new process can use.
inline constexpr int kStuckExitCode = 75;

class Worker {
 public:
  // Asked a few times a second; true: the caller has gone.
  using Cancelled = std::function<bool()>;

  // Binds its ports and starts; registers in the background for as long as it takes.
  // kInvalidArgument names the option.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options);
  ~Worker();

  const std::string& control_address() const;
  // Stops the stage, leaves the coordinator. Idempotent.
  void Shutdown();

  // What WorkerService's handlers do. Thread-safe. The first three wait for what an earlier,
  // cancelled call still has on the device.
  absl::StatusOr<Profile> ProfileJob(const v1::JobContext& job, const Cancelled& cancelled);
  absl::StatusOr<VerifyReport> Verify(const v1::VerifyRunRequest& request,
                                      const Cancelled& cancelled);
  absl::StatusOr<int64_t> PrepareStage(const v1::PrepareStageRequest& request,
                                       const Cancelled& cancelled);
  absl::Status StartStage(const std::string& job_id, int64_t attempt);
  // OK once the stage's memory is free; kUnavailable while it has not stopped: ask again.
  absl::Status AbortStage(const std::string& job_id, int64_t attempt, const std::string& cause);
  absl::StatusOr<std::shared_ptr<StageSession>> Session(const std::string& job_id, int64_t attempt);
  Connector* connector() { return connector_.get(); }

 private:
  class DeviceUse;
  explicit Worker(const WorkerOptions& options);
  absl::Status Init();

  // Lease thread.
  void RunLease();
  // Measures it, once. False: the worker stops.
  bool KnowSpeed();
  void Register();
  void Heartbeat();
  absl::Status Call(Duration timeout, const std::function<grpc::Status(grpc::ClientContext*)>& call,
                    const RpcPeer& peer);

  bool stopping() const;
  std::shared_ptr<StageSession> held() const;
  // Aborts the stage and forgets it once it has stopped and its memory is free. kUnavailable if
  // that takes longer than `patience`; ends the process if the stage is stuck.
  absl::Status Drop(const std::shared_ptr<StageSession>& session, const std::string& cause,
                    Duration patience);
  // Drop of whatever is held; true if nothing is any more.
  bool DropHeld(const std::string& cause, Duration patience);
  absl::StatusOr<std::shared_ptr<StageSession>> NewSession(const v1::PrepareStageRequest& request);

  const WorkerOptions options_;
  std::string advertised_host_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<KernelBackend> backend_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<v1::CoordinatorService::StubInterface> coordinator_;
  std::unique_ptr<JobFileCache> files_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<RpcServer> server_;

  // Lease thread only.
  bool speed_known_ = false;  // as far as it can be
  bool registered_ = false;
  int64_t incarnation_ = 0;
  Duration heartbeat_period_ = std::chrono::milliseconds(500);
  Duration last_contact_{};

  mutable Mutex mutex_;
  CondVar wake_;       // the lease thread
  CondVar available_;  // busy_ ended
  bool stopping_ PD_GUARDED_BY(mutex_) = false;
  bool busy_ PD_GUARDED_BY(mutex_) = false;                    // profiling or preparing
  grpc::ClientContext* call_ PD_GUARDED_BY(mutex_) = nullptr;  // the lease thread's, in progress
  std::string id_ PD_GUARDED_BY(mutex_);
  double speed_ PD_GUARDED_BY(mutex_) = 0;  // 0: could not be measured
  std::shared_ptr<StageSession> session_ PD_GUARDED_BY(mutex_);
  std::thread lease_;
};

}  // namespace pipedream
