#include "coordinator/codec/stage_report_codec.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/codec/ledger_codec.h"
#include "common/codec/lists.h"
#include "coordinator/codec/job_record_codec.h"

namespace pipedream {
namespace {

// Of one report; a heartbeat brings far fewer.
constexpr int kMaxReported = 100'000;
constexpr int kMaxLedgers = 1'000;  // stages of a worker

}  // namespace

v1::LossPoint ToProto(const JobLoss& loss) {
  v1::LossPoint m;
  m.set_first_minibatch(loss.first_minibatch);
  m.set_last_minibatch(loss.last_minibatch);
  m.set_loss_sum(loss.loss_sum);
  m.set_samples(loss.samples);
  return m;
}

JobLoss FromProto(const v1::LossPoint& m) {
  return {m.first_minibatch(), m.last_minibatch(), m.loss_sum(), m.samples()};
}

v1::EvaluationResult ToProto(const JobEvaluation& evaluation) {
  v1::EvaluationResult m;
  m.set_epoch(evaluation.epoch);
  m.set_loss_sum(evaluation.loss_sum);
  m.set_correct(evaluation.correct);
  m.set_positions(evaluation.positions);
  m.set_samples(evaluation.samples);
  return m;
}

JobEvaluation FromProto(const v1::EvaluationResult& m) {
  return {m.epoch(), m.loss_sum(), m.correct(), m.positions(), m.samples()};
}

v1::StageProgress ToProto(const StageStatus& status) {
  v1::StageProgress m;
  m.set_stage(status.stage);
  m.set_replica(status.replica);
  m.set_worker_id(status.worker_id);
  m.set_microbatches_forward(status.microbatches_forward);
  m.set_microbatches_backward(status.microbatches_backward);
  m.set_updates(status.updates);
  m.set_forward_s(status.forward_s);
  m.set_backward_s(status.backward_s);
  m.set_step_s(status.step_s);
  m.set_wait_receive_s(status.wait_receive_s);
  m.set_wait_send_s(status.wait_send_s);
  m.set_reduce_s(status.reduce_s);
  m.set_load_s(status.load_s);
  m.set_memory_bytes(status.memory_bytes);
  m.set_sent_bytes(status.sent_bytes);
  m.set_versions_held(status.versions_held);
  m.set_operation(status.operation);
  m.set_link_bytes_per_s(status.link_bytes_per_s);
  m.set_skipped_updates(status.skipped_updates);
  return m;
}

StageStatus FromProto(const v1::StageProgress& m) {
  return {m.stage(),
          m.replica(),
          m.worker_id(),
          m.microbatches_forward(),
          m.microbatches_backward(),
          m.updates(),
          m.forward_s(),
          m.backward_s(),
          m.step_s(),
          m.wait_receive_s(),
          m.wait_send_s(),
          m.reduce_s(),
          m.load_s(),
          m.memory_bytes(),
          m.sent_bytes(),
          m.versions_held(),
          m.operation(),
          m.skipped_updates(),
          std::isfinite(m.link_bytes_per_s()) ? std::max(m.link_bytes_per_s(), 0.0) : 0.0};
}

v1::Failure ToProto(const JobFailure& failure) {
  v1::Failure m;
  m.set_reason(failure.reason);
  m.set_message(failure.message);
  m.set_code(static_cast<int>(failure.code));
  m.set_worker_id(failure.worker_id);
  m.set_stage(failure.stage);
  m.set_replica(failure.replica);
  m.set_operation(failure.operation);
  return m;
}

JobFailure FromProto(const v1::Failure& m) {
  bool known = m.code() > 0 && m.code() <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return {m.reason(),
          m.message(),
          known ? static_cast<absl::StatusCode>(m.code()) : absl::StatusCode::kUnknown,
          m.worker_id(),
          m.stage(),
          m.replica(),
          m.operation()};
}

absl::StatusOr<StageReported> FromProto(const std::string& worker_id, const v1::StageReport& m) {
  using State = StageReported::State;
  StageReported report{.ref = {m.job_id(), m.attempt()}, .worker_id = worker_id};
  switch (m.state()) {
    case v1::StageReport::STATE_PREPARED:
      report.state = State::kPrepared;
      break;
    case v1::StageReport::STATE_RUNNING:
      report.state = State::kRunning;
      break;
    case v1::StageReport::STATE_DONE:
      report.state = State::kDone;
      break;
    case v1::StageReport::STATE_FAILED:
      report.state = State::kFailed;
      break;
    default:
      return InvalidArgument("StageReport.state {} is unknown", static_cast<int>(m.state()));
  }
  report.progress.status = FromProto(m.progress());
  const StageStatus& s = report.progress.status;
  if (std::min({s.microbatches_forward, s.microbatches_backward, s.updates, s.skipped_updates}) < 0)
    return InvalidArgument("StageReport.progress has a negative count");
  for (int i = 0; i < std::min(m.losses_size(), kMaxReported); ++i) {
    JobLoss loss = FromProto(m.losses(i));
    if (std::isfinite(loss.loss_sum)) report.progress.losses.push_back(loss);
  }
  for (int i = 0; i < std::min(m.evaluations_size(), kMaxReported); ++i)
    report.progress.evaluations.push_back(FromProto(m.evaluations(i)));
  if (m.has_failure()) report.failure = FromProto(m.failure());
  report.sequence = m.sequence();
  PD_RETURN_IF_ERROR(ReadAll(m.ledger(), "StageReport.ledger", &report.ledger, kMaxLedgers));
  for (const auto& line : m.log()) report.log.push_back(FromProto(line));
  return report;
}

}  // namespace pipedream
