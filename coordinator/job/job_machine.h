// The only mutator of jobs: events in, effects out. Deterministic: no clock, no threads, no I/O, no
// randomness of its own, so every history can be replayed.
//
//   QUEUED --workers free--> PROFILING --measured--> PARTITIONING --planned--> PLACING
//     --all prepared--> STARTING --all started--> RUNNING --all done--> FINISHING --> SUCCEEDED
//   any of them --cancel--> CANCELLED; any --first cause of failure--> FAILED
//
// Queue: first come, first served, without overtaking; a worker serves one job at a time. A job
// takes spec.workers idle workers or, when that is 0, all idle ones once at least LeastWorkers
// (job_schedule.h) are idle and none has registered or is being released within `settle`. A job
// with a plan of its own takes the workers that this names, once all are idle. A job that waits
// longer than spec.start_timeout_s, for whatever reason, fails with UNSATISFIABLE; `reason` says
// what is missing.
//
// Failure: the first cause wins. A *secondary* failure (a lost or aborted peer, an unreachable
// worker) is held back for `suspect`: if in that time a lease runs out or a member fails for a
// reason of its own, that is the cause; else the first secondary failure is.
//
// Threads: not thread-safe; the coordinator's loop owns it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/job/effects.h"
#include "coordinator/job/events.h"
#include "coordinator/job/job.h"
#include "coordinator/job/progress_tracker.h"

namespace pipedream {

struct JobMachineOptions {
  Duration settle = std::chrono::seconds(2);
  Duration suspect = std::chrono::seconds(4);  // a lease and a bit
  Duration stall = std::chrono::seconds(60);   // no change anywhere while running
  Duration notify_every = std::chrono::milliseconds(250);
  Duration persist_every = std::chrono::seconds(10);  // progress of running jobs
  Duration abort_retry = std::chrono::seconds(1);
  Duration plan_timeout = std::chrono::seconds(10);  // a plan_only job waits for workers
  Duration reuse_links = std::chrono::minutes(10);
};

class JobMachine {
 public:
  // `profiles`: measured earlier, by ProfileKey.
  JobMachine(const JobMachineOptions& options, std::map<std::string, Profile> profiles);
  ~JobMachine();

  // After a restart, before any event: `jobs` not terminal, in the order of their creation. Queued
  // ones stay queued, the others fail with COORDINATOR_RESTARTED.
  std::vector<Effect> Restore(std::vector<Job> jobs, Time now);
  std::vector<Effect> Handle(const Event& event, Time now);

  // A job that is not over; null otherwise. Without progress: that is in NotifyWatchers.
  const Job* Find(const std::string& job_id) const;
  // Should the worker keep a stage of that job and attempt? No: its heartbeat is answered
  // drop_stage.
  bool KeepsStage(const std::string& worker_id, const StageRef& ref) const;
  struct Assignment {
    bool busy = false;
    std::string job_id;
    int stage = -1;
    int replica = -1;
  };
  Assignment AssignmentOf(const std::string& worker_id) const;

 private:
  struct ActiveJob;
  struct WorkerSlot {
    WorkerInfo info;
    std::string job_id;                 // reserved for it
    std::optional<StageRef> releasing;  // told to drop that stage, has not confirmed
    bool abort_pending = false;         // a call is on its way
    Duration retry_at{};
    bool idle() const { return job_id.empty() && !releasing; }
  };

  // job_machine.cc: arrivals, queue, workers.
  void On(const Submitted& event);
  void On(const CancelRequested& event);
  void On(const WorkerRegistered& event);
  void On(const WorkerLost& event);
  void On(const StageAborted& event);
  void On(const StoreFailed& event);
  // verifications.cc: runs that are over, verified on workers that are idle.
  void On(const VerifyRequested& event);
  void On(const VerifyDone& event);
  // Ends all that `which` selects by worker; their calls, which go on for a while, are cancelled.
  void EndVerifications(const std::function<bool(const std::string& worker_id)>& which,
                        const absl::Status& cause);
  void On(const CoordinatorStopping& event);
  void On(const Tick& event);
  void Schedule();
  // Why the job cannot start now; empty: it can.
  std::string Obstacle(const ActiveJob& job) const;
  // A worker that the job's own plan names and that serves something else; empty: none.
  std::string BusyWorkerOfPlan(const ActiveJob& job) const;
  // Fails the job if its own plan names a worker that is not registered.
  bool HasWorkersOfPlan(ActiveJob& job);
  void CheckStartTimeout(ActiveJob& job);
  void Reserve(ActiveJob& job);
  std::vector<WorkerInfo> IdleWorkers() const;
  // Frees one worker of a job; one that may hold a stage is told to drop it first.
  void ReleaseWorker(const std::string& worker_id, const StageRef& ref, bool may_hold_stage,
                     const std::string& cause);
  void SendAbort(WorkerSlot& slot, const std::string& cause);

  // job_phases.cc: the way of one job through its states.
  void StartMeasuring(ActiveJob& job);
  void On(const ProfileDone& event);
  void On(const LinksMeasured& event);
  void PlanWhenMeasured(ActiveJob& job);
  void On(const PlanDone& event);
  void AnswerWithPlan(ActiveJob& job, const Plan& plan);
  void Place(ActiveJob& job, const PlannedRun& run);
  void On(const StagePrepared& event);
  void On(const StageStarted& event);
  void On(const StageReported& event);
  void On(const WeightsCollected& event);
  void CheckRunning(ActiveJob& job);
  // run_feedback: predicted against measured, and whether that speaks for another plan; once.
  void Compare(ActiveJob& job, const StageStatus& status);
  void On(const PlanReconsidered& event);
  void StartProgress(ActiveJob& job);
  void TellSkipped(ActiveJob& job, const StageStatus& status);

  // job_endings.cc: failing, ending, telling.
  // Decides between cause and suspect; see above.
  void ReportFailure(ActiveJob& job, JobFailure failure);
  void Fail(ActiveJob& job, JobFailure failure);
  void End(ActiveJob& job, JobState state, const std::string& reason);
  void Transition(ActiveJob& job, JobState state, const std::string& reason);
  void SetReason(ActiveJob& job, const std::string& reason);
  void AddEvent(ActiveJob& job, std::string level, std::string source, std::string message);
  void TakeProgress(ActiveJob& job);
  void Persist(ActiveJob& job);
  void Notify(ActiveJob& job);
  JobContext ContextOf(const ActiveJob& job) const;

  // Null unless the job is active, in `state`, and the attempt is current.
  ActiveJob* Current(const StageRef& ref, std::optional<JobState> state = std::nullopt);
  ActiveJob* FindActive(const std::string& job_id);

  const JobMachineOptions options_;
  std::map<std::string, Profile> profiles_;
  std::map<std::string, std::unique_ptr<ActiveJob>> jobs_;  // not terminal
  std::deque<std::string> queue_;                           // QUEUED, oldest first
  std::map<std::string, WorkerSlot> workers_;               // with a lease
  std::map<std::string, std::string> verifications_;        // id -> worker
  struct KnownLink {
    LinkMeasurement link;
    Duration measured;
  };
  std::map<std::pair<std::string, std::string>, KnownLink> links_;  // by hosts
  std::optional<Duration> last_arrival_;                            // of a worker
  bool stopping_ = false;                                           // nothing starts any more
  Time now_;                                                        // of the event being handled
  std::vector<Effect> effects_;                                     // of the event being handled
};

}  // namespace pipedream
