// What this worker does in one attempt of a job, a stage or several,, from PrepareStage to the end:
// its files, memory, channels and executor thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "pipedream/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/engine/stage_executor.h"
#include "worker/engine/worker_state.h"
#include "worker/ops/op_kernel.h"
#include "worker/service/job_file_cache.h"
#include "worker/transport/connector.h"

namespace pipedream {

// What a session needs of its worker; outlives it.
struct SessionResources {
  JobFileCache* files = nullptr;
  Device* device = nullptr;
  Connector* connector = nullptr;
  KernelBackend* backend = nullptr;
  int threads = 1;
  std::string worker_id;
  double slowdown = 1;  // WorkerOptions::slowdown
};

// new --Prepare--> prepared --Start--> running --> done
//   any of them --error or Abort--> failed; Release ends it for good
//
// Threads: all calls are thread-safe. Prepare and Start do the work on the caller's thread; Abort,
// from another, makes them return soon.
class StageSession {
 public:
  StageSession(const SessionResources& resources, const v1::PrepareStageRequest& request);
  // Aborts and waits.
  ~StageSession();

  const std::string& job_id() const { return request_.job().job_id(); }
  int64_t attempt() const { return request_.job().attempt(); }

  // Once. kInvalidArgument if the program is not valid for this worker's place in the plan; the
  // cause of an abort.
  absl::Status Prepare();
  // Returns once the executor runs. kFailedPrecondition unless prepared.
  absl::Status Start();
  // Ends whatever goes on; `cause` is what peers are told. Returns at once; the first cause counts.
  void Abort(const absl::Status& cause);
  // False if something still goes on after `timeout`.
  bool WaitStopped(Duration timeout);
  // Whether it should have stopped `limit` ago: aborted, and still computing. (Preparing may take
  // its time, but ends.)
  bool IsStuck(Duration limit) const;
  // Frees memory and channels. REQUIRES: aborted and stopped.
  void Release();

  bool done() const;
  int64_t memory_bytes() const;
  // What the next heartbeat says; false while there is nothing to say because the stage is being
  // prepared. Points are repeated, under the same sequence number, until Acknowledge is called.
  bool Report(v1::StageReport* report);
  void Acknowledge();
  // The trained tensors as one safetensors file. kFailedPrecondition unless done.
  absl::StatusOr<std::string> Weights();

 private:
  enum class Activity { kNone, kPreparing, kOpening, kRunning };

  absl::StatusOr<std::unique_ptr<WorkerState>> Build();
  void Run();
  // The end of Start or Run: done, or failed with `status` while at `operation`.
  void End(const absl::Status& status, const std::string& operation);
  absl::Status abort_cause() const;
  void TakePoints() PD_REQUIRES(mutex_);

  const SessionResources resources_;
  const v1::PrepareStageRequest request_;
  StageMonitor monitor_;
  // Built by Prepare, if the job wants a ledger; used by the executor's thread while kRunning.
  std::unique_ptr<LedgerRecorder> recorder_;
  // Built by Start while kOpening, used by the executor's thread while kRunning.
  WorkerChannels channels_;
  std::unique_ptr<StageExecutor> executor_;

  Mutex release_mutex_;  // before mutex_; whoever returns from Release finds it done
  mutable Mutex mutex_;
  CondVar stopped_;
  Activity activity_ PD_GUARDED_BY(mutex_) = Activity::kNone;
  absl::Status abort_cause_ PD_GUARDED_BY(mutex_);
  Duration aborted_at_ PD_GUARDED_BY(mutex_){};
  std::thread thread_ PD_GUARDED_BY(mutex_);
  std::shared_ptr<WorkerState> stages_ PD_GUARDED_BY(mutex_);  // null: not prepared, or released
  // State, failure, and the points that were not acknowledged yet.
  v1::StageReport report_ PD_GUARDED_BY(mutex_);
};

}  // namespace pipedream
