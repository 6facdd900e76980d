#include "coordinator/job/job_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/job/job_schedule.h"
#include "coordinator/job/active_job.h"

namespace pipedream {
namespace {

// "worker-2" before "worker-10".
bool NaturalOrder(const WorkerInfo& a, const WorkerInfo& b) {
  return std::pair(a.id.size(), a.id) < std::pair(b.id.size(), b.id);
}

}  // namespace

JobMachine::JobMachine(const JobMachineOptions& options, std::map<std::string, Profile> profiles)
    : options_(options), profiles_(std::move(profiles)) {}

JobMachine::~JobMachine() = default;

std::vector<Effect> JobMachine::Restore(std::vector<Job> jobs, Time now) {
  now_ = now;
  last_arrival_ = now.steady;
  for (Job& stored : jobs) {
    auto owned = std::make_unique<ActiveJob>();
    ActiveJob& job = *owned;
    job.job = std::move(stored);
    job.spec = std::make_shared<const JobSpec>(job.job.spec);
    job.least_workers = LeastWorkers(*job.spec);
    job.queued_since = job.state_since = now.steady;
    jobs_[job.job.id] = std::move(owned);
    if (job.job.state == JobState::kQueued) {
      queue_.push_back(job.job.id);
      AddEvent(job, "info", "coordinator", "the coordinator restarted; the job is still queued");
      Notify(job);
      continue;
    }
    Fail(job, {.reason = "COORDINATOR_RESTARTED",
               .message = fmt::format("the coordinator restarted while the job was {}; submit it "
                                      "again",
                                      ToString(job.job.state)),
               .code = absl::StatusCode::kAborted});
  }
  return std::exchange(effects_, {});
}

std::vector<Effect> JobMachine::Handle(const Event& event, Time now) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  Schedule();
  return std::exchange(effects_, {});
}

const Job* JobMachine::Find(const std::string& job_id) const {
  auto it = jobs_.find(job_id);
  return it == jobs_.end() ? nullptr : &it->second->job;
}

JobMachine::ActiveJob* JobMachine::FindActive(const std::string& job_id) {
  auto it = jobs_.find(job_id);
  return it == jobs_.end() ? nullptr : it->second.get();
}

JobMachine::ActiveJob* JobMachine::Current(const StageRef& ref, std::optional<JobState> state) {
  ActiveJob* job = FindActive(ref.job_id);
  if (job == nullptr || job->job.attempt != ref.attempt) return nullptr;
  return state && job->job.state != *state ? nullptr : job;
}

bool JobMachine::KeepsStage(const std::string& worker_id, const StageRef& ref) const {
  auto it = jobs_.find(ref.job_id);
  return it != jobs_.end() && it->second->job.attempt == ref.attempt &&
         it->second->FindMember(worker_id) != nullptr;
}

JobMachine::Assignment JobMachine::AssignmentOf(const std::string& worker_id) const {
  auto it = workers_.find(worker_id);
  if (it == workers_.end()) return {};
  const WorkerSlot& slot = it->second;
  Assignment assignment{.busy = !slot.idle(),
                        .job_id = slot.releasing ? slot.releasing->job_id : slot.job_id};
  auto job = jobs_.find(slot.job_id);
  if (job == jobs_.end()) return assignment;
  if (const JobMember* member = job->second->FindMember(worker_id)) {
    assignment.stage = member->stage;
    assignment.replica = member->replica;
  }
  return assignment;
}

void JobMachine::On(const Submitted& event) {
  auto owned = std::make_unique<ActiveJob>();
  ActiveJob& job = *owned;
  job.job.id = event.job_id;
  job.job.spec = event.spec;
  job.spec = std::make_shared<const JobSpec>(event.spec);
  job.least_workers = LeastWorkers(*job.spec);
  job.job.run = event.run;
  job.job.warnings = event.warnings;
  job.job.attempt = 1;
  job.job.created_us = now_.unix_us;
  job.job.reason = "waits for workers";
  job.plan_only = event.plan_only;
  job.measure_only = event.measure_only;
  job.queued_since = job.state_since = now_.steady;
  jobs_[event.job_id] = std::move(owned);
  queue_.push_back(event.job_id);
  AddEvent(job, "info", "coordinator", "submitted");
  for (const std::string& warning : event.warnings)
    AddEvent(job, "warning", "coordinator", warning);
  Persist(job);
  Notify(job);
}

void JobMachine::On(const CancelRequested& event) {
  ActiveJob* job = FindActive(event.job_id);
  if (job != nullptr) End(*job, JobState::kCancelled, "cancelled by the user");
  if (verifications_.count(event.job_id)) effects_.push_back(CancelCalls{event.job_id});
}

void JobMachine::On(const WorkerRegistered& event) {
  workers_[event.info.id] = {.info = event.info, .job_id = {}, .releasing = {}};
  last_arrival_ = now_.steady;
}

void JobMachine::On(const WorkerLost& event) {
  auto it = workers_.find(event.worker_id);
  if (it == workers_.end()) return;
  ActiveJob* job = FindActive(it->second.job_id);
  workers_.erase(it);
  EndVerifications([&](const std::string& worker) { return worker == event.worker_id; },
                   WithReason(Unavailable("worker {} is lost: {}; verify again on another",
                                          event.worker_id, event.cause),
                              "WORKER_LOST"));
  if (job == nullptr) return;
  const JobMember* member = job->FindMember(event.worker_id);
  if (job->job.state == JobState::kFinishing && member != nullptr && member->replica != 0) {
    AddEvent(*job, "warning", "coordinator",
             fmt::format("worker {} is lost ({}); its weights are not needed", event.worker_id,
                         event.cause));
    return;
  }
  JobFailure failure{.reason = "WORKER_LOST",
                     .code = absl::StatusCode::kUnavailable,
                     .worker_id = event.worker_id};
  std::string place;
  if (member != nullptr) {
    failure.stage = member->stage;
    failure.replica = member->replica;
    place = fmt::format(" (stage {}, replica {})", member->stage, member->replica);
    const StageStatus* status =
        job->progress ? job->progress->Find(member->stage, member->replica) : nullptr;
    failure.operation = status != nullptr ? status->operation : "";
  }
  failure.message = fmt::format("worker {}{} is lost: {}", event.worker_id, place, event.cause);
  if (failure.operation.empty() && member != nullptr)
    failure.operation =
        fmt::format("{} its stage", job->job.state == JobState::kPlacing    ? "prepare"
                                    : job->job.state == JobState::kStarting ? "start"
                                                                            : "run");
  if (failure.operation.empty() && job->job.state == JobState::kProfiling)
    failure.operation = "measure the model and the links";
  if (!failure.operation.empty())
    failure.message += fmt::format("; it was last at: {}", failure.operation);
  Fail(*job, std::move(failure));
}

void JobMachine::On(const StageAborted& event) {
  auto it = workers_.find(event.worker_id);
  if (it == workers_.end() || it->second.releasing != event.ref) return;
  WorkerSlot& slot = it->second;
  slot.abort_pending = false;
  if (event.status.ok()) {
    slot.releasing.reset();
  } else {
    slot.retry_at = now_.steady + options_.abort_retry;
  }
}

void JobMachine::On(const StoreFailed& event) {
  ActiveJob* job = FindActive(event.job_id);
  if (job != nullptr)
    Fail(*job, {.reason = "STORE_FAILED",
                .message = fmt::format("the job could not be stored: {}", event.status.ToString()),
                .code = event.status.code()});
}

void JobMachine::On(const CoordinatorStopping&) {
  stopping_ = true;
  EndVerifications([](const std::string&) { return true; },
                   WithReason(Unavailable("the coordinator is shutting down"), "SHUTTING_DOWN"));
  std::vector<ActiveJob*> running;
  for (const auto& [id, job] : jobs_)
    if (job->job.state != JobState::kQueued || job->plan_only) running.push_back(job.get());
  for (ActiveJob* job : running)
    Fail(*job, {.reason = "COORDINATOR_STOPPED",
                .message = "the coordinator was stopped while the job ran; submit it again",
                .code = absl::StatusCode::kAborted});
}

void JobMachine::On(const Tick&) {
  for (auto& [id, slot] : workers_)
    if (slot.releasing && !slot.abort_pending && slot.retry_at <= now_.steady)
      SendAbort(slot, "the job is over");
  std::vector<std::string> ids;  // jobs end meanwhile
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  for (const std::string& id : ids) {
    ActiveJob& job = *jobs_[id];
    if (job.job.state == JobState::kQueued) {
      CheckStartTimeout(job);
    } else if (job.suspect && job.suspect->settle_at <= now_.steady) {
      Fail(job, job.suspect->failure);
    } else {
      CheckRunning(job);
    }
  }
  for (auto& [id, job] : jobs_)
    if (job->dirty && now_.steady - job->notified_at >= options_.notify_every) Notify(*job);
}

void JobMachine::CheckStartTimeout(ActiveJob& job) {
  Duration limit = job.plan_only ? options_.plan_timeout : FromSeconds(job.spec->start_timeout_s);
  if (limit <= Duration::zero() || now_.steady - job.queued_since < limit) return;
  std::string obstacle = Obstacle(job);
  if (!obstacle.empty())
    Fail(job, {.reason = "UNSATISFIABLE",
               .message = fmt::format("not started within {:g} s: {}; start more workers, ask for "
                                      "fewer, or raise start_timeout",
                                      ToSeconds(limit), obstacle),
               .code = absl::StatusCode::kFailedPrecondition});
}

std::vector<WorkerInfo> JobMachine::IdleWorkers() const {
  std::vector<WorkerInfo> idle;
  for (const auto& [id, slot] : workers_)
    if (slot.idle()) idle.push_back(slot.info);
  std::sort(idle.begin(), idle.end(), NaturalOrder);
  return idle;
}

std::string JobMachine::Obstacle(const ActiveJob& job) const {
  if (queue_.front() != job.job.id) return fmt::format("waits behind job {}", queue_.front());
  const auto need = static_cast<size_t>(job.least_workers);
  size_t idle = 0, releasing = 0;
  std::set<std::string> others;
  for (const auto& [id, slot] : workers_) {
    idle += slot.idle();
    releasing += slot.releasing.has_value();
    if (!slot.job_id.empty()) others.insert(slot.job_id);
  }
  if (idle < need) {
    std::string text =
        workers_.size() < need
            ? fmt::format("needs {} workers, {} are registered", need, workers_.size())
            : fmt::format("needs {} idle workers, {} are idle", need, idle);
    if (!others.empty())
      text += fmt::format("; {} {} on the others", fmt::join(others, ", "),
                          others.size() == 1 ? "runs" : "run");
    if (releasing > 0) text += fmt::format("; {} are being freed", releasing);
    return text;
  }
  if (const std::string busy = BusyWorkerOfPlan(job); !busy.empty())
    return fmt::format("its plan names worker {}, which is not idle", busy);
  bool settling =
      releasing > 0 || (last_arrival_ && now_.steady - *last_arrival_ < options_.settle);
  if (job.spec->workers == 0 && settling)
    return fmt::format("{} workers are idle; waits a moment for more to register", idle);
  return "";
}

std::string JobMachine::BusyWorkerOfPlan(const ActiveJob& job) const {
  if (!job.spec->plan.has_value()) return "";
  for (const PlanStage& stage : job.spec->plan->stages) {
    for (const std::string& id : stage.workers) {
      const auto found = workers_.find(id);
      if (found != workers_.end() && !found->second.idle()) return id;
    }
  }
  return "";
}

bool JobMachine::HasWorkersOfPlan(ActiveJob& job) {
  if (!job.spec->plan.has_value()) return true;
  const std::vector<PlanStage>& stages = job.spec->plan->stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (const std::string& id : stages[s].workers) {
      if (workers_.contains(id)) continue;
      std::vector<std::string> there;
      for (const WorkerInfo& worker : IdleWorkers()) there.push_back(worker.id);
      Fail(job,
           {.reason = "PLAN_REJECTED",
            .message = fmt::format(
                "plan: stage {} names worker '{}', which is not registered; there are {}. Edit "
                "the stage's workers, or plan again",
                s, id, fmt::join(there, ", ")),
            .code = absl::StatusCode::kInvalidArgument,
            .operation = "plan"});
      return false;
    }
  }
  return true;
}

void JobMachine::Schedule() {
  while (!queue_.empty() && !stopping_) {
    ActiveJob& job = *jobs_[queue_.front()];
    if (!Obstacle(job).empty()) break;
    if (!HasWorkersOfPlan(job)) continue;  // the queue is shorter now
    queue_.pop_front();
    Reserve(job);
    StartMeasuring(job);
  }
  for (const std::string& id : queue_) {
    ActiveJob& job = *jobs_[id];
    SetReason(job, Obstacle(job));
  }
}

void JobMachine::Reserve(ActiveJob& job) {
  std::vector<WorkerInfo> idle = IdleWorkers();
  if (job.spec->plan.has_value()) {
    std::set<std::string> wanted;
    for (const PlanStage& stage : job.spec->plan->stages)
      wanted.insert(stage.workers.begin(), stage.workers.end());
    std::erase_if(idle, [&](const WorkerInfo& worker) { return !wanted.contains(worker.id); });
  } else if (job.spec->workers > 0) {
    idle.resize(job.spec->workers);
  }
  for (const WorkerInfo& worker : idle) workers_[worker.id].job_id = job.job.id;
  job.workers = std::move(idle);
}

void JobMachine::ReleaseWorker(const std::string& worker_id, const StageRef& ref,
                               bool may_hold_stage, const std::string& cause) {
  auto it = workers_.find(worker_id);
  if (it == workers_.end() || it->second.job_id != ref.job_id) return;
  it->second.job_id.clear();
  if (!may_hold_stage) return;
  it->second.releasing = ref;
  SendAbort(it->second, cause);
}

void JobMachine::SendAbort(WorkerSlot& slot, const std::string& cause) {
  slot.abort_pending = true;
  effects_.push_back(AbortStage{*slot.releasing, slot.info, cause});
}

}  // namespace pipedream
