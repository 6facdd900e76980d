#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "client/render/job_text.h"
#include "client/render/json.h"
#include "client/render/progress.h"
#include "client/render/table.h"
#include "common/base/units.h"
#include "common/codec/job_codec.h"
#include "common/codec/plan_codec.h"
#include "common/plan/plan_table.h"

namespace pipedream {
namespace {

using Align = TextTable::Align;

void Field(std::string* out, std::string_view name, const std::string& value) {
  if (!value.empty()) *out += fmt::format("{:<14}{}\n", fmt::format("{}:", name), value);
}

std::string Indented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (!line.empty()) out += "  ";
    out += std::string(line) + "\n";
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return out;
}

// Blank where nothing was measured.
std::string Seconds(double s) { return s > 0 ? FormatSeconds(s) : ""; }

std::string Timings(const v1::JobTimings& t) {
  std::string text;
  for (auto [name, seconds] :
       {std::pair("queued", t.queued_s()), std::pair("profiling", t.profiling_s()),
        std::pair("partitioning", t.partitioning_s()), std::pair("placing", t.placing_s()),
        std::pair("starting", t.starting_s()), std::pair("running", t.running_s()),
        std::pair("finishing", t.finishing_s())}) {
    if (seconds > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, FormatSeconds(seconds));
    }
  }
  return text;
}

// What the plan predicts for the worker that has a stage: for all the stages of its device.
struct Prediction {
  std::string stages;  // "0", "0+3"
  double compute_s = 0;
  int64_t memory = 0;
};

Prediction PredictionOf(const v1::Plan& plan, int stage) {
  Prediction out;
  const bool placed = plan.device_of_size() == plan.stages_size();
  for (int s = 0; s < plan.stages_size(); ++s) {
    const bool same = placed && stage >= 0 && stage < plan.device_of_size() &&
                      plan.device_of(s) == plan.device_of(stage);
    if (s != stage && !same) continue;
    out.stages += fmt::format("{}{}", out.stages.empty() ? "" : "+", s);
    out.compute_s += plan.stages(s).compute_s();
    const v1::MemoryPrediction& m = plan.stages(s).memory();
    out.memory +=
        m.weights() + m.gradients() + m.optimizer() + m.activations() + m.buffers() + m.workspace();
  }
  if (out.stages.empty()) out.stages = fmt::format("{}", stage);
  return out;
}

const v1::StageComparison* FindComparison(const v1::JobProgress& progress,
                                          const v1::StageProgress& stage) {
  for (const v1::StageComparison& comparison : progress.comparisons())
    if (comparison.stage() == stage.stage() && comparison.replica() == stage.replica())
      return &comparison;
  return nullptr;
}

// Predicted against measured, per stage replica.
std::string StageTable(const v1::Job& job) {
  TextTable table({{"STAGE"},
                   {"WORKER"},
                   {"MICROBATCH predicted", Align::kRight},
                   {"measured", Align::kRight},
                   {"LINK predicted", Align::kRight},
                   {"measured", Align::kRight},
                   {"MEMORY predicted", Align::kRight},
                   {"measured", Align::kRight},
                   {"VERSIONS", Align::kRight},
                   {"WAIT", Align::kRight},
                   {"NOW"}});
  for (const v1::StageProgress& stage : job.progress().stages()) {
    const Prediction predicted = PredictionOf(job.plan(), stage.stage());
    const v1::StageComparison* compared = FindComparison(job.progress(), stage);
    double busy = stage.forward_s() + stage.backward_s() + stage.step_s();
    int64_t done = stage.microbatches_backward();
    double measured = done > 0 ? busy / static_cast<double>(done) : 0;
    if (compared != nullptr) measured = compared->measured_compute_s();
    table.Add({fmt::format("{}.{}", predicted.stages, stage.replica()), stage.worker_id(),
               Seconds(predicted.compute_s), Seconds(measured),
               compared != nullptr ? Seconds(compared->predicted_link_s()) : "",
               compared != nullptr ? Seconds(compared->measured_link_s()) : "",
               predicted.memory > 0 ? FormatBytes(predicted.memory) : "",
               stage.memory_bytes() > 0 ? FormatBytes(stage.memory_bytes()) : "",
               fmt::format("{}", stage.versions_held()),
               Seconds(stage.wait_receive_s() + stage.wait_send_s() + stage.reduce_s()),
               IsTerminal(job.state()) ? "" : stage.operation()});
  }
  return table.ToString(true);
}

std::string StepTimes(const v1::JobProgress& p) {
  if (p.predicted_step_s() <= 0 && p.measured_step_s() <= 0) return "";
  std::string text =
      fmt::format("predicted {}, measured {}",
                  p.predicted_step_s() > 0 ? FormatSeconds(p.predicted_step_s()) : "-",
                  p.measured_step_s() > 0 ? FormatSeconds(p.measured_step_s()) : "-");
  if (p.predicted_step_s() > 0 && p.measured_step_s() > 0) {
    text += fmt::format(" ({:+.0f} %)", 100 * (p.measured_step_s() / p.predicted_step_s() - 1));
  }
  return text;
}

// Empty if there were none.
std::string SkippedUpdates(const v1::JobProgress& p) {
  int64_t most = 0, updates = 0;
  for (const v1::StageProgress& stage : p.stages()) {
    if (stage.skipped_updates() <= most) continue;
    most = stage.skipped_updates();
    updates = stage.updates();
  }
  if (most == 0) return "";
  return fmt::format("{} of {} updates, since a loss or gradient was not finite", most, updates);
}

void Progress(std::string* out, const v1::Job& job) {
  if (!job.has_progress() || job.progress().epochs() == 0) return;
  const v1::JobProgress& p = job.progress();
  Field(out, "Progress",
        fmt::format("{} of {} steps, {} of {} epochs", p.minibatch(), p.minibatches(), p.epoch(),
                    p.epochs()));
  if (p.minibatch() > 0) Field(out, "Loss", fmt::format("{:.6g}", p.loss()));
  if (p.samples_per_s() > 0) Field(out, "Rate", fmt::format("{:.0f} samples/s", p.samples_per_s()));
  if (p.eta_s() > 0 && !IsTerminal(job.state())) Field(out, "ETA", FormatSeconds(p.eta_s()));
  Field(out, "Step time", StepTimes(p));
  Field(out, "Skipped", SkippedUpdates(p));
}

}  // namespace

std::string DescribeJob(const v1::Job& job, const std::vector<v1::JobEvent>& events) {
  std::string out;
  Field(&out, "ID", job.id());
  Field(&out, "Name", job.spec().name());
  Field(&out, "State", JobStateName(job.state()));
  Field(&out, "Reason", job.reason());
  if (job.has_failure()) Field(&out, "Failure", FormatFailure(job.failure()));
  Field(&out, "Attempt", fmt::format("{}", job.attempt()));
  Field(&out, "Created", FormatTime(job.created_us()));
  Field(&out, "Started", FormatTime(job.started_us()));
  Field(&out, "Finished", FormatTime(job.finished_us()));
  Field(&out, "Timings", Timings(job.timings()));
  if (job.has_run()) {
    Field(&out, "Data",
          fmt::format("{} training samples, {} test samples", job.run().train_samples(),
                      job.run().evaluation_samples()));
  }
  Progress(&out, job);
  Field(&out, "Result", job.result_sha256());
  for (const std::string& warning : job.warnings()) Field(&out, "Warning", warning);
  if (auto spec = FromProto(job.spec()); spec.ok()) {
    out += "\nSpec:\n" + Indented(FormatJobYaml(*spec));
  }
  if (job.has_plan()) {
    if (auto plan = FromProto(job.plan()); plan.ok()) {
      out += "\nPlan:\n" + Indented(FormatPlanTable(*plan));
    }
  }
  if (job.progress().stages_size() > 0) out += "\nStages:\n" + Indented(StageTable(job));
  if (job.progress().evaluations_size() > 0) {
    out += "\nEvaluations:\n";
    for (const auto& result : job.progress().evaluations()) {
      out += "  " + FormatEvaluation(result, job.progress().epochs()) + "\n";
    }
  }
  if (!events.empty()) {
    out += "\nEvents:\n";
    for (const v1::JobEvent& event : events) out += "  " + FormatEvent(event) + "\n";
  }
  return out;
}

}  // namespace pipedream
