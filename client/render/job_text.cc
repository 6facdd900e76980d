#include "client/render/job_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "client/render/progress.h"
#include "client/render/table.h"
#include "common/base/units.h"

namespace pipedream {
namespace {

using Align = TextTable::Align;

std::string Config(const v1::Plan& plan) {
  std::string text;
  for (const v1::PlanStage& stage : plan.stages()) {
    text += fmt::format("{}{}", text.empty() ? "" : "-", stage.workers_size());
  }
  if (plan.device_of_size() == 0) return text;
  const int devices = 1 + *std::max_element(plan.device_of().begin(), plan.device_of().end());
  return fmt::format("{} on {} device{}", text, devices, devices == 1 ? "" : "s");
}

// "3/8"; empty before the run.
std::string Epochs(const v1::Job& job) {
  const v1::JobProgress& p = job.progress();
  if (p.epochs() == 0) return "";
  bool running = job.state() == v1::JOB_STATE_RUNNING;
  return fmt::format("{}/{}", std::min(p.epoch() + (running ? 1 : 0), p.epochs()), p.epochs());
}

std::string WorkerState(v1::Worker::State state) {
  switch (state) {
    case v1::Worker::STATE_IDLE:
      return "IDLE";
    case v1::Worker::STATE_BUSY:
      return "BUSY";
    case v1::Worker::STATE_LOST:
      return "LOST";
    default:
      return "UNKNOWN";
  }
}

}  // namespace

std::string FormatAge(int64_t from_us, int64_t now_us) {
  if (from_us <= 0) return "";
  int64_t s = std::max<int64_t>(0, (now_us - from_us) / 1'000'000);
  if (s < 120) return fmt::format("{}s", s);
  if (s < 7200) return fmt::format("{}m", s / 60);
  if (s < 48 * 3600) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d", s / 86400);
}

std::string FormatJobTable(const std::vector<v1::Job>& jobs, bool wide, bool headers,
                           int64_t now_us) {
  std::vector<TextTable::Column> columns = {{"ID"},
                                            {"NAME"},
                                            {"STATE"},
                                            {"EPOCH", Align::kRight},
                                            {"LOSS", Align::kRight},
                                            {"ACCURACY", Align::kRight},
                                            {"AGE", Align::kRight}};
  if (wide) {
    columns.insert(columns.end(), {{"SCHEDULE"},
                                   {"STAGES"},
                                   {"SAMPLES/S", Align::kRight},
                                   {"ETA", Align::kRight},
                                   {"ATTEMPT", Align::kRight}});
  }
  columns.push_back({"REASON"});
  TextTable table(columns);
  for (const v1::Job& job : jobs) {
    const v1::JobProgress& p = job.progress();
    std::vector<std::string> row = {job.id(), job.spec().name(), JobStateName(job.state()),
                                    Epochs(job)};
    row.push_back(p.minibatch() > 0 ? fmt::format("{:.4f}", p.loss()) : "");
    int evaluations = p.evaluations_size();
    row.push_back(evaluations > 0 ? FormatAccuracy(p.evaluations(evaluations - 1)) : "");
    row.push_back(FormatAge(job.created_us(), now_us));
    if (wide) {
      row.push_back(job.spec().schedule());
      row.push_back(Config(job.plan()));
      row.push_back(p.samples_per_s() > 0 ? fmt::format("{:.0f}", p.samples_per_s()) : "");
      bool running = job.state() == v1::JOB_STATE_RUNNING && p.eta_s() > 0;
      row.push_back(running ? FormatSeconds(p.eta_s()) : "");
      row.push_back(fmt::format("{}", job.attempt()));
    }
    row.push_back(job.reason());
    table.Add(std::move(row));
  }
  return table.ToString(headers);
}

std::string FormatWorkerTable(const std::vector<v1::Worker>& workers, bool wide, bool headers,
                              int64_t now_us) {
  std::vector<TextTable::Column> columns = {{"ID"},
                                            {"STATE"},
                                            {"DEVICE"},
                                            {"MEMORY", Align::kRight},
                                            {"JOB"},
                                            {"STAGE", Align::kRight},
                                            {"HEARTBEAT", Align::kRight}};
  if (wide) columns.insert(columns.end(), {{"ADDRESS"}, {"HOST"}, {"VERSION"}});
  TextTable table(columns);
  for (const v1::Worker& worker : workers) {
    std::vector<std::string> row = {worker.id(), WorkerState(worker.state()), worker.device_kind(),
                                    FormatBytes(worker.memory_bytes()), worker.job_id()};
    bool staged = !worker.job_id().empty() && worker.stage() >= 0;
    row.push_back(staged ? fmt::format("{}.{}", worker.stage(), worker.replica()) : "");
    std::string age = FormatAge(worker.last_heartbeat_us(), now_us);
    row.push_back(age.empty() ? "" : age + " ago");
    if (wide) {
      row.push_back(worker.control_address());
      row.push_back(worker.data_address().host_id());
      row.push_back(worker.version());
    }
    table.Add(std::move(row));
  }
  return table.ToString(headers);
}

std::string FormatFailure(const v1::Failure& failure) {
  std::string place;
  auto add = [&](const std::string& part) { place += (place.empty() ? "" : ", ") + part; };
  if (failure.stage() >= 0) {
    add(fmt::format("stage {}", failure.stage()));
    add(fmt::format("replica {}", failure.replica()));
  }
  if (!failure.worker_id().empty()) add("worker " + failure.worker_id());
  if (!failure.operation().empty()) add("operation " + failure.operation());
  return fmt::format("{}{}{}{}", failure.reason(), failure.reason().empty() ? "" : ": ",
                     failure.message(), place.empty() ? "" : " (" + place + ")");
}

std::string FormatOutcome(const v1::Job& job) {
  std::string text = fmt::format("job {} {}", job.id(), JobStateName(job.state()));
  const v1::JobProgress& p = job.progress();
  if (job.state() == v1::JOB_STATE_SUCCEEDED) {
    text += fmt::format(" after {}", FormatSeconds(job.timings().running_s()));
    if (p.evaluations_size() > 0) {
      const auto& last = p.evaluations(p.evaluations_size() - 1);
      if (!FormatAccuracy(last).empty()) text += ", test accuracy " + FormatAccuracy(last);
    }
    return text + fmt::format("\ntake the trained model: pipedream export {} --onnx trained.onnx",
                              job.id());
  }
  if (job.has_failure() && job.state() == v1::JOB_STATE_FAILED) {
    return text + "\n" + FormatFailure(job.failure()) +
           fmt::format("\nmore: pipedream describe job {}", job.id());
  }
  return job.reason().empty() ? text : text + ": " + job.reason();
}

}  // namespace pipedream
