// One stage of one attempt on this worker, from PrepareStage to the end: its files, memory,
// channels and executor thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "pipedream/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/engine/stage_executor.h"
#include "worker/engine/stage_state.h"
#include "worker/ops/op_kernel.h"
#include "worker/service/job_files.h"
#include "worker/transport/connector.h"

namespace pipedream {

// What a session needs of its worker; outlives it.
struct SessionResources {
  JobFiles* files = nullptr;
  Device* device = nullptr;
  Connector* connector = nullptr;
  KernelBackend* backend = nullptr;
  int threads = 1;
  std::string worker_id;
};

// Threads: all calls are thread-safe; Prepare and Start come once, in that order.
class StageSession {
 public:
  StageSession(const SessionResources& resources, std::string job_id, int64_t attempt);
  // Aborts and waits for the executor.
  ~StageSession();

  const std::string& job_id() const { return job_id_; }
  int64_t attempt() const { return attempt_; }

  // kInvalidArgument if the program is not valid for this worker's place in the plan.
  absl::Status Prepare(const v1::PrepareStageRequest& request);
  absl::Status Start();
  // Ends whatever goes on; `cause` is what peers are told. Returns at once.
  void Abort(const absl::Status& cause);
  // False if the executor has not stopped within `timeout`.
  bool WaitStopped(Duration timeout);

  bool done() const;
  int64_t memory_bytes() const;
  // Points and log lines since the last acknowledged report are in every report until Acknowledge
  // is called for it.
  v1::StageReport Report();
  void Acknowledge();
  // The trained tensors as one safetensors file. kFailedPrecondition unless done.
  absl::StatusOr<std::string> Weights();

 private:
  absl::Status OpenChannels();
  void Run();
  void Fail(const absl::Status& status, const std::string& operation);
  const v1::StageMember* Member(int stage, int replica) const;

  const SessionResources resources_;
  const std::string job_id_;
  const int64_t attempt_;
  v1::PrepareStageRequest request_;
  std::unique_ptr<StageState> stage_;
  StageChannels channels_;
  StageMonitor monitor_;
  std::unique_ptr<StageExecutor> executor_;
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar stopped_;
  bool running_ PD_GUARDED_BY(mutex_) = false;
  bool opening_ PD_GUARDED_BY(mutex_) = false;
  absl::Status abort_cause_ PD_GUARDED_BY(mutex_);
  // state, failure and whatever was not acknowledged yet; progress is filled in by Report.
  v1::StageReport report_ PD_GUARDED_BY(mutex_);
  int sent_losses_ PD_GUARDED_BY(mutex_) = 0;
  int sent_evaluations_ PD_GUARDED_BY(mutex_) = 0;
  int sent_log_ PD_GUARDED_BY(mutex_) = 0;
};

}  // namespace pipedream
