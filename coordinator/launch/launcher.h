// Carries out the job machine's effects that take time: calls to workers, planning, exporting. What
// comes of them goes back as events.
//
// Threads: Run may be called on any thread, in practice the coordinator's loop; it never blocks.
// The work runs on the pool's threads, and so does `post`. Borrows all pointers; the destructor
// cancels what is in progress and waits for it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "coordinator/job/effects.h"
#include "coordinator/job/events.h"
#include "coordinator/launch/task_pool.h"
#include "coordinator/launch/worker_client.h"
#include "coordinator/store/blob_store.h"

namespace pipedream {

struct LauncherOptions {
  Duration profile_timeout = std::chrono::minutes(15);
  Duration probe_timeout = std::chrono::seconds(10);
  Duration prepare_timeout = std::chrono::minutes(15);
  Duration start_timeout = std::chrono::seconds(60);
  Duration abort_timeout = std::chrono::seconds(5);
  Duration collect_timeout = std::chrono::minutes(15);
  Duration verify_timeout = std::chrono::hours(1);
  std::string data_root;  // of "shared:" paths
  // Replaced in tests.
  std::function<absl::StatusOr<PlanReconsidered::Answer>(const ReconsiderPlan&)> reconsider;
  std::function<absl::StatusOr<PlannedRun>(const ComputePlan&)> plan;
};

class Launcher {
 public:
  Launcher(LauncherOptions options, WorkerClients* clients, BlobStore* blobs,
           std::function<void(Event)> post);
  ~Launcher();

  void Run(const StartProfile& effect);
  void Run(const MeasureLinks& effect);
  void Run(const ComputePlan& effect);
  void Run(const ReconsiderPlan& effect);
  void Run(const PrepareStages& effect);
  void Run(const StartStages& effect);
  void Run(const AbortStage& effect);
  void Run(const CollectResult& effect);
  void Run(const StoreLedger& effect);
  void Run(const StartVerify& effect);
  void Run(const CancelCalls& effect);

 private:
  absl::StatusOr<PlannedRun> Plan(const ComputePlan& effect);
  CallOptions Options(const std::string& job_id, Duration timeout);
  absl::StatusOr<std::vector<LinkMeasurement>> Measure(const MeasureLinks& effect,
                                                       const CallOptions& options);
  absl::StatusOr<ProbeResult> ProbeBothEnds(const LinkProbe& probe, const std::string& name,
                                            const std::string& transport,
                                            const CallOptions& options);

  const LauncherOptions options_;
  WorkerClients* const clients_;
  BlobStore* const blobs_;
  const std::function<void(Event)> post_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<CancelToken>> tokens_ PD_GUARDED_BY(mutex_);  // by job
  TaskPool pool_;  // last: its tasks use the rest
};

}  // namespace pipedream
