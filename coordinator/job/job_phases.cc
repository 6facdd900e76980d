// The way of one job through its states.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "coordinator/job/active_job.h"
#include "coordinator/job/job_machine.h"
#include "coordinator/job/profile_key.h"

namespace pipedream {
namespace {

// A run is compared with its plan after so many minibatches, and another plan that is by more than
// this faster is worth an event.
constexpr int64_t kFirstSteps = 10;
constexpr double kWorthTelling = 0.1;

constexpr size_t kMaxLogLines = 100;   // of one report
constexpr size_t kMaxLogBytes = 2000;  // of one line

JobFailure FailureOf(const absl::Status& status, std::string_view fallback_reason) {
  std::string reason = ReasonOf(status);
  return {.reason = reason.empty() ? std::string(fallback_reason) : reason,
          .message = std::string(status.message().data(), status.message().size()),
          .code = status.code()};
}

// A worker's answer: names the place in message and fields.
JobFailure FailureAt(const JobMember& member, const absl::Status& status,
                     std::string_view operation, std::string_view fallback_reason) {
  JobFailure failure = FailureOf(status, fallback_reason);
  failure.worker_id = member.worker.id;
  failure.stage = member.stage;
  failure.replica = member.replica;
  failure.operation = operation;
  return failure;
}

// The first stage of every device, device by device: a worker counts once, by that one. The order
// of the programs (WorkersOf).
std::vector<size_t> FirstStages(const Plan& plan) {
  std::vector<size_t> out;
  for (int device = 0; device < plan.devices(); ++device) {
    size_t stage = static_cast<size_t>(device);
    if (!plan.device_of.empty()) {
      const auto found = std::ranges::find(plan.device_of, device);
      if (found == plan.device_of.end()) continue;
      stage = static_cast<size_t>(found - plan.device_of.begin());
    }
    out.push_back(stage);
  }
  return out;
}

std::vector<JobMember> MembersOf(const Plan& plan, const std::vector<WorkerInfo>& workers) {
  std::vector<JobMember> members;
  for (const size_t s : FirstStages(plan)) {
    const std::vector<std::string>& ids = plan.stages[s].workers;
    for (size_t r = 0; r < ids.size(); ++r)
      for (const WorkerInfo& worker : workers)
        if (worker.id == ids[r])
          members.push_back({static_cast<int>(s), static_cast<int>(r), worker});
  }
  return members;
}

// The plan uses workers of the job, each once, and comes with a program for each.
absl::Status CheckPlan(const PlannedRun& run, const std::vector<WorkerInfo>& workers) {
  size_t wanted = 0;
  for (const size_t s : FirstStages(run.plan)) wanted += run.plan.stages[s].workers.size();
  std::set<std::string> used;
  for (const JobMember& member : MembersOf(run.plan, workers)) used.insert(member.worker.id);
  if (wanted == 0 || used.size() != wanted || run.programs == nullptr ||
      run.programs->size() != wanted)
    return Internal("the plan {} does not fit the job's {} workers", run.plan.config(),
                    workers.size());
  return absl::OkStatus();
}

}  // namespace

void JobMachine::StartMeasuring(ActiveJob& job) {
  std::vector<StartProfile> profiles;
  for (const WorkerInfo& worker : job.workers) {
    if (job.profiles.count(worker.device_kind) || job.kinds_missing.count(worker.device_kind))
      continue;
    auto known =
        profiles_.find(ProfileKey(*job.spec, job.job.run, worker.device_kind, worker.version));
    if (known != profiles_.end()) {
      job.profiles[worker.device_kind] = known->second;
    } else {
      job.kinds_missing.insert(worker.device_kind);
      profiles.push_back({ContextOf(job), worker});
    }
  }
  std::vector<LinkProbe> probes;
  for (LinkProbe& probe : ChooseProbes(job.workers)) {
    auto known = links_.find({probe.from.data_address.host_id, probe.to.data_address.host_id});
    if (known != links_.end() && now_.steady - known->second.measured < options_.reuse_links)
      job.links.push_back(known->second.link);
    else
      probes.push_back(std::move(probe));
  }
  job.links_missing = !probes.empty();
  Transition(job, JobState::kProfiling,
             fmt::format("{} workers; measures {} device kinds and {} links", job.workers.size(),
                         profiles.size(), probes.size()));
  if (job.links_missing) effects_.push_back(MeasureLinks{ContextOf(job), std::move(probes)});
  for (StartProfile& profile : profiles) effects_.push_back(std::move(profile));
  PlanWhenMeasured(job);
}

void JobMachine::On(const ProfileDone& event) {
  ActiveJob* job = Current(event.ref, JobState::kProfiling);
  if (job == nullptr || job->kinds_missing.count(event.device_kind) == 0) return;
  if (!event.profile.ok()) {
    JobFailure failure = FailureOf(event.profile.status(), "PROFILE_FAILED");
    failure.worker_id = event.worker_id;
    failure.operation = "profile the model";
    ReportFailure(*job, std::move(failure));
    return;
  }
  job->kinds_missing.erase(event.device_kind);
  job->profiles[event.device_kind] = *event.profile;
  std::string version;
  for (const WorkerInfo& worker : job->workers)
    if (worker.id == event.worker_id) version = worker.version;
  std::string key = ProfileKey(*job->spec, job->job.run, event.device_kind, version);
  profiles_[key] = *event.profile;
  effects_.push_back(StoreProfile{key, *event.profile});
  AddEvent(*job, "info", "coordinator",
           fmt::format("profiled {} nodes on {}: {} per microbatch of {}",
                       event.profile->nodes.size(), event.worker_id,
                       FormatSeconds(event.profile->step_s), event.profile->microbatch_size));
  PlanWhenMeasured(*job);
}

void JobMachine::On(const LinksMeasured& event) {
  ActiveJob* job = Current(event.ref, JobState::kProfiling);
  if (job == nullptr || !job->links_missing) return;
  if (!event.links.ok()) {
    JobFailure failure = FailureOf(event.links.status(), "LINK_PROBE_FAILED");
    failure.operation = "measure links";
    ReportFailure(*job, std::move(failure));
    return;
  }
  job->links_missing = false;
  for (const LinkMeasurement& link : *event.links) {
    job->links.push_back(link);
    links_[{link.from_host, link.to_host}] = {link, now_.steady};
  }
  PlanWhenMeasured(*job);
}

void JobMachine::PlanWhenMeasured(ActiveJob& job) {
  if (job.links_missing || !job.kinds_missing.empty()) return;
  std::map<std::string, double> profiled;
  for (const auto& [kind, profile] : job.profiles) profiled[kind] = profile.device_speed;
  job.topology = MakeTopology(job.workers, job.links, profiled);
  if (job.measure_only) return AnswerWithPlan(job, Plan());
  Transition(job, JobState::kPartitioning, fmt::format("plans for {} workers", job.workers.size()));
  effects_.push_back(ComputePlan{ContextOf(job), job.profiles, job.topology});
}

void JobMachine::On(const PlanDone& event) {
  ActiveJob* job = Current(event.ref, JobState::kPartitioning);
  if (job == nullptr) return;
  absl::Status status = event.run.status();
  if (status.ok() && !job->plan_only) status = CheckPlan(*event.run, job->workers);
  if (!status.ok()) {
    JobFailure failure = FailureOf(status, "PLAN_FAILED");
    failure.operation = "plan";
    Fail(*job, std::move(failure));
    return;
  }
  job->job.plan = event.run->plan;
  for (const std::string& warning : event.run->plan.warnings) {
    job->job.warnings.push_back(warning);
    AddEvent(*job, "warning", "coordinator", warning);
  }
  if (job->plan_only) {
    AnswerWithPlan(*job, event.run->plan);
    return;
  }
  Place(*job, *event.run);
}

void JobMachine::AnswerWithPlan(ActiveJob& job, const Plan& plan) {
  PlanAnswer answer{plan, {}, job.topology, job.job.warnings};
  for (const auto& [kind, profile] : job.profiles) answer.profiles.push_back(profile);
  effects_.push_back(AnswerPlan{job.job.id, std::move(answer)});
  End(job, JobState::kSucceeded, job.measure_only ? "measured" : "planned");
}

void JobMachine::Place(ActiveJob& job, const PlannedRun& run) {
  job.members = MembersOf(run.plan, job.workers);
  std::vector<WorkerInfo> kept;
  for (const WorkerInfo& worker : job.workers) {
    if (job.FindMember(worker.id) != nullptr) {
      kept.push_back(worker);
      job.waiting.insert(worker.id);
    } else {  // the planner does better without it
      ReleaseWorker(worker.id, job.ref(), /*may_hold_stage=*/false, "");
    }
  }
  job.workers = std::move(kept);
  Transition(job, JobState::kPlacing,
             fmt::format("{} stages ({}) on {} workers, predicted {} per minibatch",
                         run.plan.stages.size(), run.plan.config(), job.workers.size(),
                         FormatSeconds(run.plan.step_s)));
  effects_.push_back(PrepareStages{ContextOf(job), run.plan, run.programs, job.members});
}

void JobMachine::On(const StagePrepared& event) {
  ActiveJob* job = Current(event.ref, JobState::kPlacing);
  const JobMember* member = job == nullptr ? nullptr : job->FindMember(event.worker_id);
  if (member == nullptr) return;
  if (!event.memory_bytes.ok()) {
    ReportFailure(*job, FailureAt(*member, event.memory_bytes.status(), "prepare its stage",
                                  "PREPARE_FAILED"));
    return;
  }
  job->waiting.erase(event.worker_id);
  AddEvent(*job, "info", event.worker_id,
           fmt::format("stage {} replica {} is prepared, {} allocated", member->stage,
                       member->replica, FormatBytes(*event.memory_bytes)));
  if (!job->waiting.empty()) return;
  for (const JobMember& m : job->members) job->waiting.insert(m.worker.id);
  Transition(*job, JobState::kStarting, "opens channels");
  effects_.push_back(StartStages{job->ref(), job->members});
}

void JobMachine::On(const StageStarted& event) {
  ActiveJob* job = Current(event.ref, JobState::kStarting);
  const JobMember* member = job == nullptr ? nullptr : job->FindMember(event.worker_id);
  if (member == nullptr) return;
  if (!event.status.ok()) {
    ReportFailure(*job, FailureAt(*member, event.status, "start its stage", "START_FAILED"));
    return;
  }
  job->waiting.erase(event.worker_id);
  if (!job->waiting.empty()) return;
  StartProgress(*job);
  Transition(*job, JobState::kRunning, "trains");
}

void JobMachine::StartProgress(ActiveJob& job) {
  if (job.progress != nullptr) return;
  job.progress = std::make_unique<ProgressTracker>(*job.spec, job.job.run, job.job.plan->step_s);
  job.feedback = std::make_unique<RunFeedback>(*job.job.plan);
}

void JobMachine::On(const StageReported& event) {
  ActiveJob* job = Current(event.ref);
  const JobMember* member = job == nullptr ? nullptr : job->FindMember(event.worker_id);
  if (member == nullptr) return;
  int64_t& last_sequence = job->last_sequence[event.worker_id];
  const bool repeated = event.sequence != 0 && event.sequence == last_sequence;
  last_sequence = event.sequence;
  if (!repeated)
    for (size_t i = 0; i < std::min(event.log.size(), kMaxLogLines); ++i)
      AddEvent(*job, event.log[i].level, event.worker_id,
               event.log[i].message.substr(0, kMaxLogBytes));
  // A stage may run, and report, before the last StartStage has been answered.
  StartProgress(*job);
  ProgressReport progress = event.progress;
  if (repeated) {  // the answer to the last heartbeat was lost
    progress.losses.clear();
    progress.evaluations.clear();
  }
  progress.status.stage = member->stage;
  progress.status.replica = member->replica;
  progress.status.worker_id = event.worker_id;
  job->progress->Add(progress, now_.steady);
  Compare(*job, progress.status);
  TellSkipped(*job, progress.status);
  job->dirty = true;
  if (!event.ledger.empty()) job->ledgers[event.worker_id] = event.ledger;
  if (event.state == StageReported::State::kFailed) {
    JobFailure failure = event.failure.value_or(
        JobFailure{.reason = "STAGE_FAILED", .message = "the stage failed without saying why"});
    failure.worker_id = event.worker_id;
    failure.stage = member->stage;
    failure.replica = member->replica;
    if (failure.operation.empty()) failure.operation = progress.status.operation;
    ReportFailure(*job, std::move(failure));
    return;
  }
  if (event.state == StageReported::State::kDone) job->done.insert(event.worker_id);
  CheckRunning(*job);
}

void JobMachine::Compare(ActiveJob& job, const StageStatus& status) {
  const int64_t minibatch = job.progress->minibatch();
  const RunShape& run = job.job.run;
  job.feedback->Add(status, run.evaluation_samples == 0 || minibatch < run.minibatches_per_epoch());
  if (job.reconsidered || minibatch < kFirstSteps || !job.feedback->complete()) return;
  job.reconsidered = true;
  effects_.push_back(ReconsiderPlan{ContextOf(job), job.profiles,
                                    job.feedback->AsMeasured(job.topology), *job.job.plan});
}

void JobMachine::On(const PlanReconsidered& event) {
  ActiveJob* job = Current(event.ref, JobState::kRunning);
  if (job == nullptr) return;
  if (!event.answer.ok()) {  // only a hint is lost
    AddEvent(
        *job, "info", "coordinator",
        fmt::format("could not plan by the measured times: {}", event.answer.status().ToString()));
    return;
  }
  const Plan &current = event.answer->current, &best = event.answer->best;
  const double gain = best.step_s > 0 ? current.step_s / best.step_s - 1 : 0;
  if (gain <= kWorthTelling) return;
  AddEvent(
      *job, "warning", "coordinator",
      fmt::format(
          "by the times measured so far the plan {} would be {:.0f} % faster for the "
          "remaining {} steps than this one, {} ({} per minibatch against {}); submit "
          "the job again to use it",
          best.config(), gain * 100,
          job->job.run.minibatches_per_epoch() * job->job.run.epochs - job->progress->minibatch(),
          current.config(), FormatSeconds(best.step_s), FormatSeconds(current.step_s)));
}

// When an update is skipped for the first time, and whenever the number has doubled.
void JobMachine::TellSkipped(ActiveJob& job, const StageStatus& status) {
  if (status.skipped_updates <= 0 || status.skipped_updates < 2 * job.skipped_told) return;
  job.skipped_told = status.skipped_updates;
  AddEvent(job, "warning", status.worker_id,
           fmt::format("stage {} replica {} has skipped {} of {} updates, since a loss or gradient "
                       "was not finite",
                       status.stage, status.replica, status.skipped_updates, status.updates));
}

void JobMachine::CheckRunning(ActiveJob& job) {
  if (job.job.state != JobState::kRunning) return;
  if (job.done.size() == job.members.size()) {
    job.progress->Finish();
    Transition(job, JobState::kFinishing, "collects the trained weights");
    std::vector<JobMember> first_replicas;
    for (const JobMember& member : job.members)
      if (member.replica == 0) first_replicas.push_back(member);
    std::string ledger = job.LedgerText();
    job.job.ledger_sha256 = ledger.empty() ? "" : Sha256Hex(ledger);
    effects_.push_back(CollectResult{ContextOf(job), std::move(first_replicas), std::move(ledger)});
    return;
  }
  if (now_.steady - job.persisted_at >= options_.persist_every) Persist(job);
  Duration quiet = now_.steady - std::max(job.state_since, job.progress->last_change());
  if (job.suspect || quiet < options_.stall) return;
  Fail(job,
       {.reason = "STALLED",
        .message = fmt::format("no stage has moved for {:.0f} s although all workers answer: {}",
                               ToSeconds(quiet), job.progress->DescribeOperations()),
        .code = absl::StatusCode::kDeadlineExceeded});
}

void JobMachine::On(const WeightsCollected& event) {
  ActiveJob* job = Current(event.ref, JobState::kFinishing);
  if (job == nullptr) return;
  if (!event.result_sha256.ok()) {
    JobFailure failure = FailureOf(event.result_sha256.status(), "EXPORT_FAILED");
    failure.operation = "collect the trained weights";
    ReportFailure(*job, std::move(failure));
    return;
  }
  job->job.result_sha256 = *event.result_sha256;
  End(*job, JobState::kSucceeded, "trained");
}

}  // namespace pipedream
