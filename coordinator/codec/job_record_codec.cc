#include "coordinator/codec/job_record_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/codec/plan_codec.h"
#include "coordinator/codec/stage_report_codec.h"

namespace pipedream {

// The enumerators are in the same order.
v1::JobState ToProto(JobState state) {
  return static_cast<v1::JobState>(static_cast<int>(state) + 1);
}

absl::StatusOr<JobState> FromProto(v1::JobState state) {
  int value = static_cast<int>(state) - 1;
  if (value < 0 || value >= kJobStates)
    return InvalidArgument("Job.state {} is unknown", static_cast<int>(state));
  return static_cast<JobState>(value);
}

v1::JobEvent ToProto(const JobEvent& event) {
  v1::JobEvent m;
  m.set_sequence(event.sequence);
  m.set_time_us(event.time_us);
  m.set_level(event.level);
  m.set_source(event.source);
  m.set_message(event.message);
  return m;
}

JobEvent FromProto(const v1::JobEvent& m) {
  return {m.sequence(), m.time_us(), m.level(), m.source(), m.message()};
}

namespace {

v1::JobProgress ToProto(const JobProgress& p) {
  v1::JobProgress m;
  m.set_minibatch(p.minibatch);
  m.set_minibatches(p.minibatches);
  m.set_epoch(p.epoch);
  m.set_epochs(p.epochs);
  m.set_samples(p.samples);
  m.set_loss(p.loss);
  m.set_samples_per_s(p.samples_per_s);
  m.set_eta_s(p.eta_s);
  m.set_learning_rate(p.learning_rate);
  m.set_predicted_step_s(p.predicted_step_s);
  m.set_measured_step_s(p.measured_step_s);
  for (const JobEvaluation& e : p.evaluations) *m.add_evaluations() = ToProto(e);
  for (const JobLoss& l : p.curve) *m.add_curve() = ToProto(l);
  for (const StageStatus& s : p.stages) *m.add_stages() = ToProto(s);
  for (const StageComparison& c : p.comparisons) {
    v1::StageComparison& message = *m.add_comparisons();
    message.set_stage(c.stage);
    message.set_replica(c.replica);
    message.set_worker_id(c.worker_id);
    message.set_predicted_compute_s(c.predicted_compute_s);
    message.set_measured_compute_s(c.measured_compute_s);
    message.set_predicted_link_s(c.predicted_link_s);
    message.set_measured_link_s(c.measured_link_s);
  }
  return m;
}

JobProgress ProgressOf(const v1::JobProgress& m) {
  JobProgress p;
  p.minibatch = m.minibatch();
  p.minibatches = m.minibatches();
  p.epoch = m.epoch();
  p.epochs = m.epochs();
  p.samples = m.samples();
  p.loss = m.loss();
  p.samples_per_s = m.samples_per_s();
  p.eta_s = m.eta_s();
  p.learning_rate = m.learning_rate();
  p.predicted_step_s = m.predicted_step_s();
  p.measured_step_s = m.measured_step_s();
  for (const auto& e : m.evaluations()) p.evaluations.push_back(FromProto(e));
  for (const auto& l : m.curve()) p.curve.push_back(FromProto(l));
  for (const auto& s : m.stages()) p.stages.push_back(FromProto(s));
  for (const auto& c : m.comparisons())
    p.comparisons.push_back({c.stage(), c.replica(), c.worker_id(), c.predicted_compute_s(),
                             c.measured_compute_s(), c.predicted_link_s(), c.measured_link_s()});
  return p;
}

v1::JobTimings ToProto(const JobTimings& t) {
  v1::JobTimings m;
  m.set_queued_s(t.of(JobState::kQueued));
  m.set_profiling_s(t.of(JobState::kProfiling));
  m.set_partitioning_s(t.of(JobState::kPartitioning));
  m.set_placing_s(t.of(JobState::kPlacing));
  m.set_starting_s(t.of(JobState::kStarting));
  m.set_running_s(t.of(JobState::kRunning));
  m.set_finishing_s(t.of(JobState::kFinishing));
  return m;
}

JobTimings TimingsOf(const v1::JobTimings& m) {
  JobTimings t;
  t.of(JobState::kQueued) = m.queued_s();
  t.of(JobState::kProfiling) = m.profiling_s();
  t.of(JobState::kPartitioning) = m.partitioning_s();
  t.of(JobState::kPlacing) = m.placing_s();
  t.of(JobState::kStarting) = m.starting_s();
  t.of(JobState::kRunning) = m.running_s();
  t.of(JobState::kFinishing) = m.finishing_s();
  return t;
}

}  // namespace

v1::Job ToProto(const Job& job) {
  v1::Job m;
  m.set_id(job.id);
  *m.mutable_spec() = ToProto(job.spec);
  m.set_state(ToProto(job.state));
  m.set_reason(job.reason);
  m.set_attempt(job.attempt);
  m.set_created_us(job.created_us);
  m.set_started_us(job.started_us);
  m.set_finished_us(job.finished_us);
  *m.mutable_run() = ToProto(job.run);
  if (job.plan) *m.mutable_plan() = ToProto(*job.plan);
  *m.mutable_progress() = ToProto(job.progress);
  if (job.failure) *m.mutable_failure() = ToProto(*job.failure);
  *m.mutable_timings() = ToProto(job.timings);
  m.set_result_sha256(job.result_sha256);
  m.set_ledger_sha256(job.ledger_sha256);
  for (const std::string& warning : job.warnings) m.add_warnings(warning);
  m.set_last_sequence(job.last_sequence);
  return m;
}

absl::StatusOr<Job> FromProto(const v1::Job& m) {
  Job job;
  job.id = m.id();
  PD_ASSIGN_OR_RETURN(job.spec, FromProto(m.spec()));
  PD_ASSIGN_OR_RETURN(job.state, FromProto(m.state()));
  job.reason = m.reason();
  job.attempt = m.attempt();
  job.created_us = m.created_us();
  job.started_us = m.started_us();
  job.finished_us = m.finished_us();
  PD_ASSIGN_OR_RETURN(job.run, FromProto(m.run()));
  if (m.has_plan()) {
    PD_ASSIGN_OR_RETURN(job.plan, FromProto(m.plan()));
  }
  job.progress = ProgressOf(m.progress());
  if (m.has_failure()) job.failure = FromProto(m.failure());
  job.timings = TimingsOf(m.timings());
  job.result_sha256 = m.result_sha256();
  job.ledger_sha256 = m.ledger_sha256();
  job.warnings.assign(m.warnings().begin(), m.warnings().end());
  job.last_sequence = m.last_sequence();
  return job;
}

v1::DataAddress ToProto(const WorkerAddress& address) {
  v1::DataAddress m;
  m.set_host(address.host);
  m.set_port(address.port);
  m.set_host_id(address.host_id);
  m.set_unix_name(address.unix_name);
  m.set_process_id(address.process_id);
  return m;
}

v1::Worker ToProto(const WorkerInfo& worker) {
  v1::Worker m;
  m.set_id(worker.id);
  m.set_device_kind(worker.device_kind);
  m.set_memory_bytes(worker.memory_bytes);
  m.set_version(worker.version);
  m.set_control_address(worker.control_address);
  *m.mutable_data_address() = ToProto(worker.data_address);
  m.set_speed(worker.speed);
  return m;
}

WorkerInfo FromProto(const v1::Worker& m) {
  const v1::DataAddress& a = m.data_address();
  return {m.id(),
          m.device_kind(),
          m.memory_bytes(),
          m.version(),
          m.control_address(),
          {a.host(), a.port(), a.host_id(), a.unix_name(), a.process_id()},
          m.speed()};
}

std::string SpecHash(const JobSpec& spec) {
  v1::JobSpec message = ToProto(spec);
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return Sha256Hex(bytes);
}

}  // namespace pipedream
