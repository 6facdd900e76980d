#include "worker/service/stage_session.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/codec/plan_codec.h"
#include "common/codec/schedule_codec.h"
#include "common/graph/safetensors.h"
#include "common/schedule/validate.h"
#include "worker/service/address_codec.h"
#include "worker/service/open_channels.h"

namespace pipedream {

StageSession::StageSession(const SessionResources& resources, std::string job_id, int64_t attempt)
    : resources_(resources), job_id_(std::move(job_id)), attempt_(attempt) {
  MutexLock lock(mutex_);
  report_.set_job_id(job_id_);
  report_.set_attempt(attempt_);
}

StageSession::~StageSession() {
  Abort(absl::CancelledError("the worker dropped the stage"));
  if (thread_.joinable()) thread_.join();
}

absl::Status StageSession::Prepare(const v1::PrepareStageRequest& request) {
  request_ = request;
  StageInputs inputs;
  PD_ASSIGN_OR_RETURN(inputs.spec, FromProto(request.job().spec()));
  PD_ASSIGN_OR_RETURN(inputs.run, FromProto(request.job().run()));
  PD_ASSIGN_OR_RETURN(Plan plan, FromProto(request.plan()));
  PD_ASSIGN_OR_RETURN(inputs.program, FromProto(request.program()));
  PD_RETURN_IF_ERROR(Validate(inputs.run));
  inputs.stage_of = plan.stage_of();
  const int stages = static_cast<int>(plan.stages.size());
  const int stage = inputs.program.stage.value();
  // The schedule follows from plan and run; the slice that was sent must be the one they imply.
  const ScheduleShape shape = MakeScheduleShape(inputs.run, plan.replicas(), plan.warmup(),
                                                inputs.spec.optimizer.clip_norm > 0);
  if (stage < 0 || stage >= stages || inputs.program.shape != shape)
    return InvalidArgument("the program's shape does not follow from the job and its plan");
  PD_RETURN_IF_ERROR(ValidateProgram(inputs.program));

  PD_ASSIGN_OR_RETURN(inputs.model, resources_.files->OpenModel(inputs.spec));
  PD_ASSIGN_OR_RETURN(std::vector<std::string> columns,
                      ColumnsOfStage(*inputs.model, inputs.spec, inputs.stage_of, stages, stage));
  PD_ASSIGN_OR_RETURN(inputs.train,
                      resources_.files->OpenDataset(inputs.spec, *inputs.model,
                                                    inputs.spec.train_columns, columns));
  if (inputs.run.evaluation_samples > 0) {
    PD_ASSIGN_OR_RETURN(inputs.evaluation,
                        resources_.files->OpenDataset(inputs.spec, *inputs.model,
                                                      inputs.spec.evaluation_columns, columns));
  }
  PD_ASSIGN_OR_RETURN(stage_, BuildStage(inputs, *resources_.backend, resources_.device));
  MutexLock lock(mutex_);
  report_.set_state(v1::StageReport::STATE_PREPARED);
  return absl::OkStatus();
}

const v1::StageMember* StageSession::Member(int stage, int replica) const {
  for (const v1::StageMember& member : request_.members())
    if (member.stage() == stage && member.replica() == replica) return &member;
  return nullptr;
}

absl::Status StageSession::Start() {
  {
    MutexLock lock(mutex_);
    if (report_.state() != v1::StageReport::STATE_PREPARED || opening_)
      return FailedPrecondition("the stage of job {} is not in the prepared state", job_id_);
    opening_ = true;
  }
  absl::Status opened = OpenStageChannels(request_, *stage_, resources_.connector, &channels_);
  {
    MutexLock lock(mutex_);
    opening_ = false;
    if (!abort_cause_.ok()) opened = abort_cause_;
    stopped_.NotifyAll();
  }
  if (!opened.ok()) {
    Fail(opened, "opening channels");
    return opened;
  }
  executor_ = std::make_unique<StageExecutor>(stage_.get(), &channels_, &monitor_, SystemClock());
  {
    MutexLock lock(mutex_);
    report_.set_state(v1::StageReport::STATE_RUNNING);
    running_ = true;
    if (!abort_cause_.ok()) executor_->Abort(abort_cause_);
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void StageSession::Run() {
  resources_.backend->SetThreads(resources_.threads);
  absl::Status status = executor_->Run();
  if (status.ok()) {
    MutexLock lock(mutex_);
    report_.set_state(v1::StageReport::STATE_DONE);
  } else {
    channels_.Abort(status);
    Fail(status, Format(monitor_.current()));
  }
  MutexLock lock(mutex_);
  running_ = false;
  stopped_.NotifyAll();
}

void StageSession::Fail(const absl::Status& status, const std::string& operation) {
  const std::string message(status.message().data(), status.message().size());
  LogWarning("job {} attempt {}: stage {} failed: {}", job_id_, attempt_,
             request_.program().stage(), status.ToString());
  std::string reason = ReasonOf(status);
  // The cause is elsewhere; whoever holds it reports it.
  if (absl::IsUnavailable(status) || message.find("aborted by the peer") != std::string::npos)
    reason = "PEER_LOST";
  MutexLock lock(mutex_);
  report_.set_state(v1::StageReport::STATE_FAILED);
  v1::Failure& failure = *report_.mutable_failure();
  failure.set_reason(reason.empty() ? "STAGE_FAILED" : reason);
  failure.set_message(message);
  failure.set_code(static_cast<int>(status.code()));
  failure.set_worker_id(resources_.worker_id);
  failure.set_stage(request_.program().stage());
  failure.set_replica(request_.program().replica());
  failure.set_operation(operation);
}

void StageSession::Abort(const absl::Status& cause) {
  MutexLock lock(mutex_);
  if (abort_cause_.ok()) abort_cause_ = cause;
  if (opening_) resources_.connector->AbortHandshakes(cause);
  if (running_) executor_->Abort(cause);
}

bool StageSession::WaitStopped(Duration timeout) {
  const Duration deadline = SystemClock()->Now() + timeout;
  MutexLock lock(mutex_);
  while (running_ || opening_) {
    const Duration left = deadline - SystemClock()->Now();
    if (left <= Duration::zero()) return false;
    stopped_.WaitFor(mutex_, left);
  }
  return true;
}

bool StageSession::done() const {
  MutexLock lock(mutex_);
  return report_.state() == v1::StageReport::STATE_DONE && !running_;
}

int64_t StageSession::memory_bytes() const { return stage_ == nullptr ? 0 : stage_->memory_bytes; }

v1::StageReport StageSession::Report() {
  MutexLock lock(mutex_);
  // The state is read before the points: a report that says DONE holds all of them.
  const v1::StageReport::State state = report_.state();
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
  const StageCounters counters = monitor_.counters();
  v1::StageProgress& progress = *report_.mutable_progress();
  progress.set_stage(request_.program().stage());
  progress.set_replica(request_.program().replica());
  progress.set_worker_id(resources_.worker_id);
  progress.set_microbatches_forward(counters.forwards);
  progress.set_microbatches_backward(counters.backwards);
  progress.set_updates(counters.updates);
  progress.set_forward_s(counters.forward_s);
  progress.set_backward_s(counters.backward_s);
  progress.set_step_s(counters.step_s);
  progress.set_wait_receive_s(counters.wait_receive_s);
  progress.set_wait_send_s(counters.wait_send_s);
  progress.set_reduce_s(counters.reduce_s);
  progress.set_load_s(counters.load_s);
  progress.set_sent_bytes(counters.sent_bytes);
  progress.set_versions_held(counters.versions_held);
  progress.set_memory_bytes(memory_bytes());
  progress.set_operation(running_ ? Format(monitor_.current()) : "");
  sent_losses_ = report_.losses_size();
  sent_evaluations_ = report_.evaluations_size();
  sent_log_ = report_.log_size();
  v1::StageReport out = report_;
  out.set_state(state);
  return out;
}

void StageSession::Acknowledge() {
  MutexLock lock(mutex_);
  report_.mutable_losses()->DeleteSubrange(0, std::exchange(sent_losses_, 0));
  report_.mutable_evaluations()->DeleteSubrange(0, std::exchange(sent_evaluations_, 0));
  report_.mutable_log()->DeleteSubrange(0, std::exchange(sent_log_, 0));
}

absl::StatusOr<std::string> StageSession::Weights() {
  if (!done()) return FailedPrecondition("the stage of job {} has not finished", job_id_);
  PD_ASSIGN_OR_RETURN(auto tensors, stage_->Export(*resources_.backend));
  return SerializeSafetensors(tensors);
}

}  // namespace pipedream
