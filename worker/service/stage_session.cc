#include "worker/service/stage_session.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/codec/ledger_codec.h"
#include "common/codec/lists.h"
#include "common/codec/plan_codec.h"
#include "common/codec/schedule_codec.h"
#include "common/graph/safetensors.h"
#include "common/job/job_schedule.h"
#include "common/schedule/validate.h"
#include "worker/service/open_channels.h"

namespace pipedream {

StageSession::StageSession(const SessionResources& resources,
                           const v1::PrepareStageRequest& request)
    : resources_(resources), request_(request) {
  MutexLock lock(mutex_);
  report_.set_job_id(job_id());
  report_.set_attempt(attempt());
}

StageSession::~StageSession() {
  Abort(absl::CancelledError("the worker dropped the stage"));
  while (!WaitStopped(std::chrono::seconds(1))) {
  }
  Release();
}

absl::Status StageSession::abort_cause() const {
  MutexLock lock(mutex_);
  return abort_cause_;
}

absl::Status StageSession::Prepare() {
  {
    MutexLock lock(mutex_);
    if (!abort_cause_.ok()) return abort_cause_;
    activity_ = Activity::kPreparing;
  }
  absl::StatusOr<std::unique_ptr<WorkerState>> built = Build();
  MutexLock lock(mutex_);
  activity_ = Activity::kNone;
  stopped_.NotifyAll();
  if (built.ok()) stages_ = *std::move(built);  // also if aborted: whoever aborted releases it
  if (!abort_cause_.ok()) return abort_cause_;
  if (stages_ == nullptr) return built.status();
  report_.set_state(v1::StageReport::STATE_PREPARED);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WorkerState>> StageSession::Build() {
  StageInputs inputs;
  PD_ASSIGN_OR_RETURN(inputs.spec, FromProto(request_.job().spec()));
  PD_ASSIGN_OR_RETURN(inputs.run, FromProto(request_.job().run()));
  PD_ASSIGN_OR_RETURN(Plan plan, FromProto(request_.plan()));
  PD_ASSIGN_OR_RETURN(inputs.program, FromProto(request_.program()));
  PD_RETURN_IF_ERROR(Validate(inputs.run));
  inputs.stage_of = plan.stage_of();
  for (size_t s = 0; s < plan.stages.size(); ++s)
    if (plan.stages[s].recompute) inputs.recompute_stages.insert(static_cast<int>(s));
  // The schedule follows from plan and run; the slice that was sent must be the one they imply.
  // (Who sends to whom follows from the model; BuildWorker sees to that.)
  PD_ASSIGN_OR_RETURN(ScheduleShape shape, ShapeOfRun(inputs.spec, inputs.run, plan.replicas(),
                                                      plan.warmup(), plan.device_of));
  shape.edges = inputs.program.shape.edges;
  shape.tied_stages = inputs.program.shape.tied_stages;
  if (inputs.program.shape != shape)
    return InvalidArgument("the program's shape does not follow from the job and its plan");
  PD_ASSIGN_OR_RETURN(const JobSchedule schedule, ScheduleOf(inputs.spec));
  if (inputs.program.policy != schedule.policy)
    return InvalidArgument("the program's weight policy is {}, that of the job's schedule '{}' {}",
                           PolicyName(inputs.program.policy), inputs.spec.schedule,
                           PolicyName(schedule.policy));
  PD_RETURN_IF_ERROR(ValidateProgram(inputs.program));

  auto cancelled = [this] { return !abort_cause().ok(); };
  PD_ASSIGN_OR_RETURN(inputs.model, resources_.files->OpenModel(inputs.spec, cancelled));
  PD_ASSIGN_OR_RETURN(std::vector<std::string> columns,
                      ColumnsOfWorker(*inputs.model, inputs.spec, inputs.stage_of, inputs.program));
  PD_ASSIGN_OR_RETURN(inputs.train,
                      resources_.files->OpenDataset(inputs.spec, *inputs.model,
                                                    inputs.spec.train_columns, columns, cancelled));
  if (inputs.run.evaluation_samples > 0) {
    PD_ASSIGN_OR_RETURN(inputs.evaluation, resources_.files->OpenDataset(
                                               inputs.spec, *inputs.model,
                                               inputs.spec.evaluation_columns, columns, cancelled));
  }
  PD_RETURN_IF_ERROR(abort_cause());
  const bool ledger = inputs.spec.ledger;
  PD_ASSIGN_OR_RETURN(std::unique_ptr<WorkerState> worker,
                      BuildWorker(std::move(inputs), *resources_.backend, resources_.device));
  if (ledger) {
    PD_ASSIGN_OR_RETURN(recorder_, LedgerRecorder::Create(worker->pointers(), resources_.backend));
  }
  return worker;
}

absl::Status StageSession::Start() {
  WorkerState* stages;
  {
    MutexLock lock(mutex_);
    if (!abort_cause_.ok()) return abort_cause_;
    if (report_.state() != v1::StageReport::STATE_PREPARED || activity_ != Activity::kNone)
      return FailedPrecondition("the stage of job {} is not in the prepared state", job_id());
    activity_ = Activity::kOpening;
    stages = stages_.get();
  }
  absl::Status opened = OpenChannels(
      request_, *stages, resources_.connector, [this] { return abort_cause(); }, &channels_);
  if (!opened.ok()) {
    channels_ = WorkerChannels();  // neighbours that got theirs see that this end is gone
    End(opened, "opening channels");
    return opened;
  }
  executor_ =
      std::make_unique<StageExecutor>(&stages->program, stages->pointers(), &channels_, &monitor_,
                                      SystemClock(), nullptr, recorder_.get(), resources_.slowdown);
  MutexLock lock(mutex_);
  report_.set_state(v1::StageReport::STATE_RUNNING);
  activity_ = Activity::kRunning;
  if (!abort_cause_.ok()) executor_->Abort(abort_cause_);
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void StageSession::Run() {
  resources_.backend->SetThreads(resources_.threads);
  absl::Status status = executor_->Run();
  if (!status.ok()) channels_.Abort(status);
  End(status, Format(monitor_.current()));
}

void StageSession::End(const absl::Status& status, const std::string& operation) {
  v1::Failure failure;
  if (!status.ok()) {
    const std::string message(status.message().data(), status.message().size());
    LogWarning("job {} attempt {}: stage {} failed: {}", job_id(), attempt(),
               request_.program().stage(), status.ToString());
    std::string reason = ReasonOf(status);
    // The cause is elsewhere; whoever holds it reports it.
    if (absl::IsUnavailable(status) || message.find("aborted by the peer") != std::string::npos)
      reason = "PEER_LOST";
    failure.set_reason(reason.empty() ? "STAGE_FAILED" : reason);
    failure.set_message(message);
    failure.set_code(static_cast<int>(status.code()));
    failure.set_worker_id(resources_.worker_id);
    failure.set_stage(request_.program().stage());
    failure.set_replica(request_.program().replica());
    failure.set_operation(operation);
  }
  // All at once: who sees the stage done may fetch its weights.
  MutexLock lock(mutex_);
  if (recorder_ != nullptr) AppendAll(recorder_->ledgers(), report_.mutable_ledger());
  report_.set_state(status.ok() ? v1::StageReport::STATE_DONE : v1::StageReport::STATE_FAILED);
  if (!status.ok()) *report_.mutable_failure() = std::move(failure);
  activity_ = Activity::kNone;
  stopped_.NotifyAll();
}

void StageSession::Abort(const absl::Status& cause) {
  MutexLock lock(mutex_);
  if (!abort_cause_.ok()) return;
  abort_cause_ = cause;
  aborted_at_ = SystemClock()->Now();
  // Preparing and opening look at the cause by themselves.
  if (activity_ == Activity::kRunning) executor_->Abort(cause);
}

bool StageSession::WaitStopped(Duration timeout) {
  const Duration deadline = SystemClock()->Now() + timeout;
  MutexLock lock(mutex_);
  while (activity_ != Activity::kNone) {
    const Duration left = deadline - SystemClock()->Now();
    if (left <= Duration::zero()) return false;
    stopped_.WaitFor(mutex_, left);
  }
  return true;
}

bool StageSession::IsStuck(Duration limit) const {
  MutexLock lock(mutex_);
  return !abort_cause_.ok() && SystemClock()->Now() - aborted_at_ > limit &&
         (activity_ == Activity::kOpening || activity_ == Activity::kRunning);
}

void StageSession::Release() {
  MutexLock release(release_mutex_);
  std::thread thread;
  std::shared_ptr<WorkerState> stages;
  {
    MutexLock lock(mutex_);
    PIPEDREAM_CHECK(activity_ == Activity::kNone && !abort_cause_.ok());
    thread = std::exchange(thread_, std::thread());
    stages = std::exchange(stages_, nullptr);
  }
  if (thread.joinable()) thread.join();
  executor_.reset();
  recorder_.reset();
  channels_ = WorkerChannels();
}

bool StageSession::done() const {
  MutexLock lock(mutex_);
  return report_.state() == v1::StageReport::STATE_DONE;
}

int64_t StageSession::memory_bytes() const {
  MutexLock lock(mutex_);
  return stages_ == nullptr ? 0 : stages_->memory_bytes();
}

void StageSession::TakePoints() {
  for (const LossSum& sum : monitor_.TakeLosses()) {
    v1::LossPoint& point = *report_.add_losses();
    point.set_first_minibatch(sum.first_minibatch);
    point.set_last_minibatch(sum.last_minibatch);
    point.set_loss_sum(sum.loss_sum);
    point.set_samples(sum.samples);
  }
  for (const EvaluationSum& sum : monitor_.TakeEvaluations()) {
    v1::EvaluationResult& result = *report_.add_evaluations();
    result.set_epoch(sum.epoch);
    result.set_loss_sum(sum.loss_sum);
    result.set_correct(sum.correct);
    result.set_positions(sum.positions);
    result.set_samples(sum.samples);
  }
}

bool StageSession::Report(v1::StageReport* report) {
  MutexLock lock(mutex_);
  v1::StageReport::State state = report_.state();
  if (state == v1::StageReport::STATE_UNSPECIFIED) return false;
  if (report_.losses_size() + report_.evaluations_size() == 0) {
    TakePoints();
    report_.set_sequence(report_.sequence() + 1);
  } else if (state == v1::StageReport::STATE_DONE) {
    // The lost report is repeated as it was; newer points follow, and only then it is done.
    state = v1::StageReport::STATE_RUNNING;
  }
  const StageCounters counters = monitor_.counters();
  v1::StageProgress& progress = *report_.mutable_progress();
  progress.set_stage(request_.program().stage());
  progress.set_replica(request_.program().replica());
  progress.set_worker_id(resources_.worker_id);
  progress.set_microbatches_forward(counters.forwards);
  progress.set_microbatches_backward(counters.backwards);
  progress.set_updates(counters.updates);
  progress.set_skipped_updates(counters.skipped_updates);
  progress.set_forward_s(counters.forward_s);
  progress.set_backward_s(counters.backward_s);
  progress.set_step_s(counters.step_s);
  progress.set_wait_receive_s(counters.wait_receive_s);
  progress.set_wait_send_s(counters.wait_send_s);
  progress.set_reduce_s(counters.reduce_s);
  progress.set_load_s(counters.load_s);
  progress.set_sent_bytes(counters.sent_bytes);
  progress.set_link_bytes_per_s(counters.link_bytes_per_s);
  progress.set_versions_held(counters.versions_held);
  progress.set_memory_bytes(stages_ == nullptr ? 0 : stages_->memory_bytes());
  progress.set_operation(activity_ == Activity::kRunning ? Format(monitor_.current()) : "");
  *report = report_;
  report->set_state(state);
  return true;
}

void StageSession::Acknowledge() {
  MutexLock lock(mutex_);
  report_.clear_losses();
  report_.clear_evaluations();
}

absl::StatusOr<std::string> StageSession::Weights() {
  std::shared_ptr<WorkerState> stages;
  {
    MutexLock lock(mutex_);
    if (report_.state() != v1::StageReport::STATE_DONE || stages_ == nullptr)
      return FailedPrecondition("the stage of job {} has not finished", job_id());
    stages = stages_;
  }
  PD_ASSIGN_OR_RETURN(auto tensors, stages->Export(*resources_.backend));
  return SerializeSafetensors(tensors);
}

}  // namespace pipedream
