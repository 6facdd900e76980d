// The coordinator without its RPCs: owns all state and the threads that work on it.
//
// Threads:
//   loop        one; owns the job machine and the worker registry, and is the only one to touch
//   them.
//               Stores what an event changed, in one transaction, before anything follows from it.
//   launch pool calls to workers, planning, exporting; as many as there are calls in progress.
//               Results return to the loop as events.
//   callers     RPC threads: validate, post to the loop, wait for its answer; read jobs from the
//               board and the store, which are thread-safe. Never hold a lock while they wait.
// Lifetime: the parts outlive the loop and the launcher; Shutdown, or the destructor, ends both.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/cluster/worker_registry.h"
#include "coordinator/job/job_machine.h"
#include "coordinator/launch/launcher.h"
#include "coordinator/service/event_loop.h"
#include "coordinator/service/job_board.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/job_store.h"

namespace pipedream {

struct CoordinatorOptions {
  RegistryOptions registry;
  Duration heartbeat = std::chrono::milliseconds(500);
  Duration tick = std::chrono::milliseconds(100);
  JobMachineOptions machine;
  LauncherOptions launcher;
};

struct CoordinatorParts {
  Clock* clock = nullptr;
  std::unique_ptr<JobStore> store;
  std::unique_ptr<BlobStore> blobs;
  std::unique_ptr<WorkerClients> clients;
};

// A job that passed all checks.
struct CheckedJob {
  JobSpec spec;  // resolved against the model
  RunShape run;
  std::vector<std::string> warnings;
};

struct WorkerView {
  RegisteredWorker worker;
  JobMachine::Assignment assignment;
};

class Coordinator {
 public:
  // Reads the store, restores unfinished jobs, starts the loop. Errors: the store's.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(const CoordinatorOptions& options,
                                                            CoordinatorParts parts);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // All below are thread-safe and block until the loop has answered; kUnavailable once shut down.
  // OK means that it is on disk.
  struct Submission {
    Job job;
    bool existed = false;
  };
  // `spec_hash` is that of the spec as the user sent it. kAlreadyExists: the key is another job's.
  absl::StatusOr<Submission> Submit(CheckedJob job, const std::string& key,
                                    const std::string& spec_hash);
  // The job that the key belongs to, if any; kAlreadyExists if its spec was another.
  absl::StatusOr<std::optional<Job>> FindByKey(const std::string& key,
                                               const std::string& spec_hash);
  // Profiles and plans. Gives up when `cancelled` says so; asked a few times a second.
  absl::StatusOr<PlanAnswer> Plan(CheckedJob job, bool measure_only,
                                  const std::function<bool()>& cancelled);
  // Lets an idle worker verify a run; as Plan. kFailedPrecondition (reason NO_IDLE_WORKER).
  absl::StatusOr<VerifyReport> Verify(VerifyOrder order, const std::function<bool()>& cancelled);
  // kNotFound; kFailedPrecondition (reason JOB_OVER) if it is over, but for a cancelled one: OK.
  absl::StatusOr<Job> Cancel(const std::string& job_id);
  absl::StatusOr<Job> Get(const std::string& job_id);
  absl::StatusOr<WorkerRegistry::Registration> Register(WorkerInfo worker);
  // Whether the worker must drop the stage that it reports on.
  absl::StatusOr<bool> Heartbeat(const std::string& worker_id, int64_t incarnation,
                                 std::optional<StageReported> report);
  absl::StatusOr<std::vector<WorkerView>> Workers();

  JobStore& store() { return *parts_.store; }
  BlobStore& blobs() { return *parts_.blobs; }
  JobBoard& board() { return board_; }
  const CoordinatorOptions& options() const { return options_; }

  // Fails running jobs with COORDINATOR_STOPPED, tells their workers, and stops within about
  // `grace`. Queued jobs wait for the next start. Idempotent.
  void Shutdown(Duration grace);

 private:
  Coordinator(const CoordinatorOptions& options, CoordinatorParts parts);
  absl::Status Restore();

  // On the loop.
  Time Now() const;
  void Handle(const Event& event);
  absl::Status Apply(std::vector<Effect> effects, StoreBatch batch = {});
  void RunEffect(Effect& effect);
  void Tick();
  absl::StatusOr<Submission> SubmitOnLoop(CheckedJob& job, const std::string& key,
                                          const std::string& spec_hash);
  absl::StatusOr<std::string> NewJobId();
  // Of a job or verification that answers one caller; see Plan.
  template <typename Answer>
  absl::StatusOr<Answer> Await(std::future<absl::StatusOr<Answer>> answer, const std::string& id,
                               const std::function<bool()>& cancelled);

  const CoordinatorOptions options_;
  CoordinatorParts parts_;
  JobBoard board_;
  // Owned by the loop.
  WorkerRegistry registry_;
  std::unique_ptr<JobMachine> machine_;
  std::map<std::string, std::function<void(absl::StatusOr<PlanAnswer>)>> plan_callers_;
  std::map<std::string, std::function<void(absl::StatusOr<VerifyReport>)>> verify_callers_;
  Duration next_tick_{};
  int aborts_in_progress_ = 0;

  std::atomic<int64_t> next_plan_{1};
  std::atomic<int64_t> next_verification_{1};
  std::atomic<bool> shut_down_{false};
  std::unique_ptr<Launcher> launcher_;
  std::unique_ptr<EventLoop> loop_;
};

}  // namespace pipedream
