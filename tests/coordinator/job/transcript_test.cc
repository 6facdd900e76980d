#include "tests/coordinator/job/transcript.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace pipedream {
namespace {

std::string Ids(const std::vector<JobMember>& members) {
  std::string text;
  for (const JobMember& m : members)
    text += fmt::format(" {}=s{}r{}", m.worker.id, m.stage, m.replica);
  return text;
}

std::string Text(const Effect& effect) {
  struct Visitor {
    std::string operator()(const PersistJob& e) const {
      return fmt::format("store {} {}", e.job.id, ToString(e.job.state));
    }
    std::string operator()(const AppendEvent&) const { return ""; }
    std::string operator()(const StoreProfile&) const { return "store profile"; }
    std::string operator()(const NotifyWatchers&) const { return ""; }
    std::string operator()(const AnswerPlan& e) const {
      return e.answer.ok() ? "answer plan " + e.answer->plan.config()
                           : "answer " + e.answer.status().ToString();
    }
    std::string operator()(const StartProfile& e) const { return "profile on " + e.worker.id; }
    std::string operator()(const MeasureLinks& e) const {
      std::string text = "links";
      for (const LinkProbe& p : e.probes) text += " " + p.from.id + ">" + p.to.id;
      return text;
    }
    std::string operator()(const ComputePlan& e) const {
      return fmt::format("plan for {}", e.topology.devices.size());
    }
    std::string operator()(const ReconsiderPlan& e) const {
      std::string text = "reconsider";
      for (const DeviceInfo& device : e.topology.devices)
        text += fmt::format(" {} x{:.3g}", device.worker_id, device.speed);
      return text;
    }
    std::string operator()(const PrepareStages& e) const { return "prepare" + Ids(e.members); }
    std::string operator()(const StartStages& e) const { return "start" + Ids(e.members); }
    std::string operator()(const AbortStage& e) const { return "abort " + e.worker.id; }
    std::string operator()(const CollectResult& e) const { return "collect" + Ids(e.members); }
    std::string operator()(const StoreLedger& e) const { return "store ledger of " + e.job_id; }
    std::string operator()(const StartVerify& e) const {
      return fmt::format("verify {} on {}", e.order->id, e.worker.id);
    }
    std::string operator()(const AnswerVerify& e) const {
      return fmt::format("answer {}: {}", e.id,
                         e.answer.ok() ? e.answer->declared : e.answer.status().ToString());
    }
    std::string operator()(const CancelCalls& e) const { return "cancel calls " + e.job_id; }
  };
  return std::visit(Visitor{}, effect);
}

}  // namespace

std::string Scenario::Write(std::vector<Effect> effects) {
  std::string text;
  for (const Effect& effect : effects) {
    if (auto* notify = std::get_if<NotifyWatchers>(&effect)) seen_[notify->job->id] = *notify->job;
    std::string line = Text(effect);
    if (!line.empty()) text += (text.empty() ? "" : "; ") + line;
  }
  return text;
}

std::string Scenario::On(const Event& event) { return Write(machine.Handle(event, now_)); }
std::string Scenario::Restore(std::vector<Job> jobs) {
  return Write(machine.Restore(std::move(jobs), now_));
}
void Scenario::Advance(double seconds) {
  now_.steady += FromSeconds(seconds);
  now_.unix_us += static_cast<int64_t>(seconds * 1e6);
}
std::string Scenario::After(double seconds) {
  Advance(seconds);
  return On(Tick{});
}

std::string Scenario::Register(const std::string& id, const std::string& kind) {
  WorkerInfo info;
  info.id = id;
  info.device_kind = kind;
  info.data_address.host_id = "host";
  return On(WorkerRegistered{info});
}

std::string Scenario::Submit(const std::string& id, int workers, double start_timeout_s) {
  JobSpec spec;
  spec.workers = workers;
  spec.start_timeout_s = start_timeout_s;
  spec.batch_size = 10;
  spec.model.sha256 = "model of " + id;
  RunShape run{.train_samples = 100, .batch_size = 10, .epochs = 2};
  return On(Submitted{id, spec, run, {}});
}

std::string Scenario::Lose(const std::string& id, const std::string& cause) {
  return On(WorkerLost{id, cause});
}

std::string Scenario::Profiled(const std::string& job, const std::string& worker) {
  Profile profile;
  profile.device_kind = "cpu";
  return On(ProfileDone{{job, 1}, "cpu", profile, worker});
}

std::string Scenario::Linked(const std::string& job) {
  return On(
      LinksMeasured{{job, 1}, std::vector<LinkMeasurement>{{"host", "host", 1e9, 1e-6, "shm"}}});
}

std::string Scenario::Planned(const std::string& job,
                              const std::vector<std::vector<std::string>>& stages) {
  PlannedRun run;
  size_t workers = 0;
  for (const auto& ids : stages) {
    PlanStage stage;
    stage.workers = ids;
    workers += ids.size();
    run.plan.stages.push_back(stage);
  }
  run.programs = std::make_shared<const std::vector<StageProgram>>(workers);
  return On(PlanDone{{job, 1}, run});
}

std::string Scenario::Prepared(const std::string& job, const std::string& worker) {
  return On(StagePrepared{{job, 1}, worker, int64_t{1000}});
}
std::string Scenario::Started(const std::string& job, const std::string& worker) {
  return On(StageStarted{{job, 1}, worker, absl::OkStatus()});
}

std::string Scenario::Reported(const std::string& job, const std::string& worker,
                               StageReported::State state, const std::string& operation,
                               int64_t backward) {
  StageReported report{.ref = {job, 1}, .worker_id = worker, .state = state};
  report.progress.status.operation = operation;
  report.progress.status.microbatches_backward = backward;
  return On(report);
}

std::string Scenario::ReportedLedger(const std::string& job, const std::string& worker, int stage,
                                     StageReported::State state) {
  StageReported report{.ref = {job, 1}, .worker_id = worker, .state = state};
  report.ledger.push_back({StageId(stage), ReplicaId(0), {}, {{0, 0x1111u * (stage + 1u)}}});
  if (state == StageReported::State::kFailed)
    report.failure = JobFailure{.reason = "NON_FINITE_LOSS",
                                .message = "the loss is nan",
                                .code = absl::StatusCode::kOutOfRange};
  return On(report);
}

std::string Scenario::Verify(const std::string& id) {
  VerifyOrder order;
  order.id = id;
  return On(VerifyRequested{std::make_shared<const VerifyOrder>(std::move(order))});
}

std::string Scenario::ReportedFailure(const std::string& job, const std::string& worker,
                                      const std::string& reason, absl::StatusCode code,
                                      const std::string& message) {
  StageReported report{
      .ref = {job, 1}, .worker_id = worker, .state = StageReported::State::kFailed};
  report.failure = JobFailure{.reason = reason, .message = message, .code = code};
  return On(report);
}

std::string Scenario::Aborted(const std::string& job, const std::string& worker) {
  return On(StageAborted{{job, 1}, worker, absl::OkStatus()});
}

void Scenario::BringTo(const std::string& job, JobState state) {
  Submit(job, 2);
  if (state == JobState::kQueued) return;
  Register("w1");
  Register("w2");
  if (state == JobState::kProfiling) return;
  Profiled(job);
  Linked(job);
  if (state == JobState::kPartitioning) return;
  Planned(job, {{"w1"}, {"w2"}});
  if (state == JobState::kPlacing) return;
  for (auto* w : {"w1", "w2"}) Prepared(job, w);
  if (state == JobState::kStarting) return;
  for (auto* w : {"w1", "w2"}) Started(job, w);
  if (state == JobState::kRunning) return;
  for (auto* w : {"w1", "w2"}) Reported(job, w, StageReported::State::kDone, "done");
}

}  // namespace pipedream
