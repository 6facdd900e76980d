// How jobs fail and end, and how others learn of it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "coordinator/job/active_job.h"
#include "coordinator/job/job_machine.h"

namespace pipedream {
namespace {

// Says that something happened to somebody else.
bool IsSecondary(const JobFailure& failure) {
  return failure.reason == "PEER_LOST" || failure.reason == "PEER_ABORTED" ||
         failure.code == absl::StatusCode::kUnavailable ||
         failure.code == absl::StatusCode::kDeadlineExceeded ||  // whoever did not answer
         failure.code == absl::StatusCode::kAborted ||
         failure.code == absl::StatusCode::kCancelled ||
         failure.message.find("aborted by the peer") != std::string::npos;
}

constexpr size_t kMaxCauseBytes = 500;

}  // namespace

std::string JobMachine::ActiveJob::LedgerText() const {
  std::vector<StageLedger> stages;
  for (const auto& [worker, ledger] : ledgers)
    stages.insert(stages.end(), ledger.begin(), ledger.end());
  auto merged = MergeLedgers(std::move(stages));
  return merged.ok() ? FormatLedger(*merged) : "";
}

void JobMachine::ReportFailure(ActiveJob& job, JobFailure failure) {
  if (!IsSecondary(failure)) {
    Fail(job, std::move(failure));
    return;
  }
  if (job.suspect) return;
  AddEvent(job, "warning", failure.worker_id.empty() ? "coordinator" : failure.worker_id,
           fmt::format("{}: {}; looks for the first cause", failure.reason, failure.message));
  job.suspect = ActiveJob::Suspect{std::move(failure), now_.steady + options_.suspect};
}

void JobMachine::Fail(ActiveJob& job, JobFailure failure) {
  job.job.failure = failure;
  std::string place;
  if (failure.stage >= 0)
    place = fmt::format("stage {} replica {} on {}: ", failure.stage, failure.replica,
                        failure.worker_id);
  else if (!failure.worker_id.empty())
    place = failure.worker_id + ": ";
  if (failure.message.find(failure.worker_id) != std::string::npos) place.clear();
  if (job.plan_only)
    effects_.push_back(AnswerPlan{
        job.job.id,
        WithReason(absl::Status(failure.code, place + failure.message), failure.reason)});
  End(job, JobState::kFailed, fmt::format("{}: {}{}", failure.reason, place, failure.message));
}

void JobMachine::End(ActiveJob& job, JobState state, const std::string& reason) {
  if (job.plan_only && state == JobState::kCancelled)
    effects_.push_back(AnswerPlan{job.job.id, absl::CancelledError(reason)});
  queue_.erase(std::remove(queue_.begin(), queue_.end(), job.job.id), queue_.end());
  job.job.finished_us = now_.unix_us;
  if (std::string ledger = job.LedgerText(); !ledger.empty() && state != JobState::kSucceeded) {
    job.job.ledger_sha256 = Sha256Hex(ledger);
    effects_.push_back(StoreLedger{job.job.id, std::move(ledger)});
  }
  Transition(job, state, reason);
  effects_.push_back(CancelCalls{job.job.id});
  std::string cause =
      fmt::format("job {} {}: {}", job.job.id, ToString(state), reason).substr(0, kMaxCauseBytes);
  for (const WorkerInfo& worker : job.workers)
    ReleaseWorker(worker.id, job.ref(), job.FindMember(worker.id) != nullptr, cause);
  std::string id = job.job.id;
  jobs_.erase(id);
}

void JobMachine::Transition(ActiveJob& job, JobState state, const std::string& reason) {
  if (!IsTerminal(job.job.state))
    job.job.timings.of(job.job.state) += ToSeconds(now_.steady - job.state_since);
  if (job.job.state == JobState::kQueued && !IsTerminal(state)) job.job.started_us = now_.unix_us;
  job.job.state = state;
  job.job.reason = reason;
  job.state_since = now_.steady;
  AddEvent(job, state == JobState::kFailed ? "error" : "info", "coordinator",
           fmt::format("{}: {}", ToString(state), reason));
  Persist(job);
  Notify(job);
}

void JobMachine::SetReason(ActiveJob& job, const std::string& reason) {
  if (job.job.reason == reason) return;
  job.job.reason = reason;
  Notify(job);
}

void JobMachine::AddEvent(ActiveJob& job, std::string level, std::string source,
                          std::string message) {
  if (job.plan_only) return;
  effects_.push_back(AppendEvent{job.job.id,
                                 {++job.job.last_sequence, now_.unix_us, std::move(level),
                                  std::move(source), std::move(message)}});
  job.dirty = true;
}

void JobMachine::TakeProgress(ActiveJob& job) {
  if (job.progress == nullptr) return;
  job.job.progress = job.progress->Snapshot();
  if (job.feedback != nullptr) job.job.progress.comparisons = job.feedback->Comparisons();
}

void JobMachine::Persist(ActiveJob& job) {
  job.persisted_at = now_.steady;
  if (job.plan_only) return;
  TakeProgress(job);
  effects_.push_back(PersistJob{job.job});
}

void JobMachine::Notify(ActiveJob& job) {
  job.dirty = false;
  job.notified_at = now_.steady;
  if (job.plan_only) return;
  TakeProgress(job);
  effects_.push_back(NotifyWatchers{std::make_shared<const Job>(job.job)});
}

JobContext JobMachine::ContextOf(const ActiveJob& job) const {
  return {job.ref(), job.spec, job.job.run};
}

}  // namespace pipedream
