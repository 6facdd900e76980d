#include "coordinator/service/coordinator.h"

#include <fmt/format.h>

#include <future>
#include <random>
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

absl::Status Stopping() {
  return WithReason(Unavailable("the coordinator is shutting down"), "SHUTTING_DOWN");
}

absl::Status KeyTaken(const std::string& key) {
  return WithReason(MakeStatus(absl::StatusCode::kAlreadyExists,
                               "idempotency key '{}' was used for another job; use a new one", key),
                    "IDEMPOTENCY_KEY_REUSED");
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, CoordinatorParts parts)
    : options_(options), parts_(std::move(parts)), registry_(options.registry) {}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(const CoordinatorOptions& options,
                                                                CoordinatorParts parts) {
  auto coordinator = std::unique_ptr<Coordinator>(new Coordinator(options, std::move(parts)));
  Coordinator* self = coordinator.get();
  PD_ASSIGN_OR_RETURN(auto profiles, self->parts_.store->Profiles());
  self->machine_ = std::make_unique<JobMachine>(options.machine, std::move(profiles));
  self->launcher_ = std::make_unique<Launcher>(
      options.launcher, self->parts_.clients.get(), self->parts_.blobs.get(), [self](Event event) {
        self->loop_->Post([self, event = std::move(event)] { self->Handle(event); });
      });
  self->loop_ = std::make_unique<EventLoop>(options.tick, [self] { self->Tick(); });
  if (absl::Status status = self->Restore(); !status.ok()) {
    self->shut_down_ = true;  // there is no loop to tell
    return status;
  }
  self->loop_->Start();
  return coordinator;
}

absl::Status Coordinator::Restore() {
  PD_ASSIGN_OR_RETURN(std::vector<std::string> ids, parts_.store->WorkerIds());
  for (const std::string& id : ids) registry_.Reserve(id);
  PD_ASSIGN_OR_RETURN(std::vector<Job> jobs, parts_.store->UnfinishedJobs());
  if (!jobs.empty()) LogInfo("{} unfinished jobs from before", jobs.size());
  // No worker is known yet, so nothing but storing and telling follows.
  return Apply(machine_->Restore(std::move(jobs), Now()));
}

Coordinator::~Coordinator() {
  if (loop_ == nullptr) return;  // did not start
  Shutdown(Duration::zero());
  loop_->Stop();      // nothing uses the launcher any more
  launcher_.reset();  // its last events find the loop stopped
}

void Coordinator::Shutdown(Duration grace) {
  if (shut_down_.exchange(true)) return;
  loop_->Call([this] {
    Handle(CoordinatorStopping{});
    return true;
  });
  board_.Close();
  // In pauses, so that the loop is not kept busy.
  constexpr Duration kPause = std::chrono::milliseconds(20);
  for (Duration waited{}; waited < grace; waited += kPause) {
    auto left = loop_->Call([this] { return aborts_in_progress_; });
    if (!left || *left == 0) break;
    std::promise<void> never;
    never.get_future().wait_for(kPause);
  }
}

Time Coordinator::Now() const { return {parts_.clock->Now(), parts_.clock->UnixMicros()}; }

void Coordinator::Handle(const Event& event) {
  if (std::holds_alternative<StageAborted>(event)) --aborts_in_progress_;
  absl::Status status = Apply(machine_->Handle(event, Now()));
  if (!status.ok()) LogError("{}", status.ToString());
}

absl::Status Coordinator::Apply(std::vector<Effect> effects, StoreBatch batch) {
  for (Effect& effect : effects) {
    if (auto* persist = std::get_if<PersistJob>(&effect)) {
      batch.jobs.push_back(std::move(persist->job));
    } else if (auto* append = std::get_if<AppendEvent>(&effect)) {
      LogInfo("{}: {}", append->job_id, append->event.message);
      batch.events.emplace_back(append->job_id, std::move(append->event));
    } else if (auto* profile = std::get_if<StoreProfile>(&effect)) {
      batch.profiles.emplace_back(profile->key, std::move(profile->profile));
    }
  }
  absl::Status stored = batch.empty() ? absl::OkStatus() : parts_.store->Apply(batch);
  for (Effect& effect : effects) RunEffect(effect);
  if (stored.ok()) return stored;
  // A job whose course cannot be written down must not run on. (An end that could not be stored is
  // the machine's last word on the job: nothing comes of the event then.)
  for (const Job& job : batch.jobs)
    loop_->Post([this, id = job.id, stored] { Handle(StoreFailed{id, stored}); });
  return stored;
}

void Coordinator::RunEffect(Effect& effect) {
  std::visit(
      [this](auto& e) {
        using E = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<E, NotifyWatchers>) {
          board_.Publish(std::move(e.job));
        } else if constexpr (std::is_same_v<E, AnswerPlan>) {
          auto caller = plan_callers_.find(e.job_id);
          if (caller == plan_callers_.end()) return;
          caller->second(std::move(e.answer));
          plan_callers_.erase(caller);
        } else if constexpr (std::is_same_v<E, AnswerVerify>) {
          auto caller = verify_callers_.find(e.id);
          if (caller == verify_callers_.end()) return;
          caller->second(std::move(e.answer));
          verify_callers_.erase(caller);
        } else if constexpr (!std::is_same_v<E, PersistJob> && !std::is_same_v<E, AppendEvent> &&
                             !std::is_same_v<E, StoreProfile>) {
          if constexpr (std::is_same_v<E, AbortStage>) ++aborts_in_progress_;
          launcher_->Run(e);
        }
      },
      effect);
}

void Coordinator::Tick() {
  Duration now = parts_.clock->Now();
  if (now < next_tick_) return;
  next_tick_ = now + options_.tick;
  for (const std::string& id : registry_.Expire(now)) {
    double silent = ToSeconds(now - registry_.Find(id)->last_heartbeat);
    LogWarning("worker {} is lost: no heartbeat for {:.1f} s", id, silent);
    Handle(WorkerLost{id, fmt::format("no heartbeat for {:.1f} s", silent)});
  }
  Handle(pipedream::Tick{});
}

absl::StatusOr<std::string> Coordinator::NewJobId() {
  PD_ASSIGN_OR_RETURN(int64_t number, parts_.store->NextJobNumber());
  // Workers may still hold stages of another coordinator's job of that number.
  return fmt::format("job-{}-{:04x}", number, std::random_device()() & 0xffff);
}

absl::StatusOr<std::optional<Job>> Coordinator::FindByKey(const std::string& key,
                                                          const std::string& spec_hash) {
  if (key.empty()) return std::nullopt;
  PD_ASSIGN_OR_RETURN(std::optional<IdempotencyKey> known, parts_.store->FindKey(key));
  if (!known) return std::nullopt;
  if (known->spec_hash != spec_hash) return KeyTaken(key);
  PD_ASSIGN_OR_RETURN(Job job, Get(known->job_id));
  return job;
}

absl::StatusOr<Coordinator::Submission> Coordinator::SubmitOnLoop(CheckedJob& job,
                                                                  const std::string& key,
                                                                  const std::string& spec_hash) {
  // Once more, now that nobody else can come between.
  PD_ASSIGN_OR_RETURN(std::optional<Job> known, FindByKey(key, spec_hash));
  if (known) return Submission{*std::move(known), true};
  PD_ASSIGN_OR_RETURN(std::string id, NewJobId());
  StoreBatch batch;
  if (!key.empty()) batch.keys.push_back({key, id, spec_hash});
  std::vector<Effect> effects =
      machine_->Handle(Submitted{id, std::move(job.spec), job.run, std::move(job.warnings)}, Now());
  PD_RETURN_IF_ERROR(Apply(std::move(effects), std::move(batch)));
  PD_ASSIGN_OR_RETURN(Job submitted, Get(id));
  return Submission{std::move(submitted), false};
}

absl::StatusOr<Coordinator::Submission> Coordinator::Submit(CheckedJob job, const std::string& key,
                                                            const std::string& spec_hash) {
  auto result = loop_->Call([&]() -> absl::StatusOr<Submission> {
    if (shut_down_) return Stopping();
    return SubmitOnLoop(job, key, spec_hash);
  });
  return result ? *std::move(result) : Stopping();
}

absl::StatusOr<PlanAnswer> Coordinator::Plan(CheckedJob job, bool measure_only,
                                             const std::function<bool()>& cancelled) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<PlanAnswer>>>();
  std::future<absl::StatusOr<PlanAnswer>> future = promise->get_future();
  std::string id = fmt::format("plan-{}-{:08x}", next_plan_++, std::random_device()());
  bool posted = loop_->Post([this, promise, id, measure_only, job = std::move(job)]() mutable {
    plan_callers_[id] = [promise](absl::StatusOr<PlanAnswer> answer) {
      promise->set_value(std::move(answer));
    };
    Handle(Submitted{id, std::move(job.spec), job.run, std::move(job.warnings), true,
                     measure_only});
  });
  if (!posted) return Stopping();
  return Await(std::move(future), id, cancelled);
}

absl::StatusOr<VerifyReport> Coordinator::Verify(VerifyOrder order,
                                                 const std::function<bool()>& cancelled) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<VerifyReport>>>();
  std::future<absl::StatusOr<VerifyReport>> future = promise->get_future();
  std::string id = fmt::format("verify-{}-{:08x}", next_verification_++, std::random_device()());
  order.id = id;
  bool posted = loop_->Post([this, promise, order = std::move(order)]() mutable {
    verify_callers_[order.id] = [promise](absl::StatusOr<VerifyReport> answer) {
      promise->set_value(std::move(answer));
    };
    Handle(VerifyRequested{std::make_shared<const VerifyOrder>(std::move(order))});
  });
  if (!posted) return Stopping();
  return Await(std::move(future), id, cancelled);
}

template <typename Answer>
absl::StatusOr<Answer> Coordinator::Await(std::future<absl::StatusOr<Answer>> answer,
                                          const std::string& id,
                                          const std::function<bool()>& cancelled) {
  bool asked = false;
  while (answer.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) {
    if (!asked && (cancelled() || shut_down_)) {
      asked = true;
      if (!loop_->Post([this, id] { Handle(CancelRequested{id}); })) return Stopping();
    }
  }
  return answer.get();
}

absl::StatusOr<Job> Coordinator::Cancel(const std::string& job_id) {
  auto result = loop_->Call([&]() -> absl::StatusOr<Job> {
    PD_ASSIGN_OR_RETURN(Job job, Get(job_id));
    if (job.state == JobState::kCancelled) return job;
    if (IsTerminal(job.state))
      return WithReason(FailedPrecondition("job {} is over: it is {}", job_id, ToString(job.state)),
                        "JOB_OVER");
    PD_RETURN_IF_ERROR(Apply(machine_->Handle(CancelRequested{job_id}, Now())));
    return Get(job_id);
  });
  return result ? *std::move(result) : Stopping();
}

absl::StatusOr<Job> Coordinator::Get(const std::string& job_id) {
  JobBoard::View view = board_.Get(job_id);
  if (view.job != nullptr) return *view.job;
  return parts_.store->GetJob(job_id);
}

absl::StatusOr<WorkerRegistry::Registration> Coordinator::Register(WorkerInfo worker) {
  auto result = loop_->Call([&]() -> absl::StatusOr<WorkerRegistry::Registration> {
    if (shut_down_) return Stopping();
    Time now = Now();
    PD_ASSIGN_OR_RETURN(auto registration, registry_.Register(worker, now.steady, now.unix_us));
    StoreBatch batch;
    batch.worker_ids.push_back(registration.id);
    PD_RETURN_IF_ERROR(parts_.store->Apply(batch));
    LogInfo("worker {} registered: {} at {}", registration.id, worker.device_kind,
            worker.control_address);
    if (registration.replaced_live)
      Handle(WorkerLost{registration.id, "it was started anew and registered again"});
    Handle(WorkerRegistered{registry_.Find(registration.id)->info});
    return registration;
  });
  return result ? *std::move(result) : Stopping();
}

absl::StatusOr<bool> Coordinator::Heartbeat(const std::string& worker_id, int64_t incarnation,
                                            std::optional<StageReported> report) {
  auto result = loop_->Call([&]() -> absl::StatusOr<bool> {
    Time now = Now();
    PD_RETURN_IF_ERROR(registry_.Heartbeat(worker_id, incarnation, now.steady, now.unix_us));
    if (!report) return false;
    Handle(*report);
    return !machine_->KeepsStage(worker_id, report->ref);
  });
  return result ? *std::move(result) : Stopping();
}

absl::StatusOr<std::vector<WorkerView>> Coordinator::Workers() {
  auto result = loop_->Call([&] {
    std::vector<WorkerView> views;
    for (RegisteredWorker& worker : registry_.List()) {
      JobMachine::Assignment assignment = machine_->AssignmentOf(worker.info.id);
      views.push_back({std::move(worker), std::move(assignment)});
    }
    return views;
  });
  if (!result) return Stopping();
  return *std::move(result);
}

}  // namespace pipedream
