#include "common/plan/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/base/units.h"
#include "common/plan/text_columns.h"

namespace pipedream {
namespace {

using Row = std::vector<std::string>;


// Node numbers in at most `width` columns: what does not fit is counted.
std::string NodesOf(const PlanStage& stage, size_t width) {
  std::string ranges = stage.node_ranges();
  if (ranges.size() <= width) return ranges;
  return fmt::format("{}-{} ({})", stage.nodes.front(), stage.nodes.back(), stage.nodes.size());
}

// The stage's own row, or as the neighbours see it: what comes in is what the stage before sends.
std::string StageTable(const Plan& plan) {
  std::vector<Row> rows = {
      {"stage", "nodes", "replicas", "compute", "sync", "in", "out", "versions", "depth", "stale"}};
  const bool placed = !plan.device_of.empty();
  if (placed) rows[0].insert(rows[0].begin() + 1, "device");
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage& stage = plan.stages[s];
    const bool last = s + 1 == plan.stages.size();
    rows.push_back({fmt::format("{}", s), NodesOf(stage, placed ? 9 : 14),
                    fmt::format("{}", stage.replicas()), SecondsOrDash(stage.compute_s),
                    SecondsOrDash(stage.sync_s), s == 0 ? "-" : SecondsOrDash(plan.stages[s - 1].send_s),
                    last ? "-" : SecondsOrDash(stage.send_s), fmt::format("{}", stage.versions),
                    fmt::format("{}", stage.warmup), fmt::format("{}", stage.staleness())});
    if (placed) rows.back().insert(rows.back().begin() + 1, fmt::format("{}", plan.device_of[s]));
  }
  return AlignedColumns(rows, placed ? 3 : 2);
}

std::string MemoryTable(const Plan& plan) {
  std::vector<Row> rows = {{"stage", "memory", "weights", "gradients", "optimizer", "activations",
                            "buffers", "workspace"}};
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const MemoryPrediction& memory = plan.stages[s].memory;
    Row row = {fmt::format("{}", s)};
    for (const int64_t bytes : {memory.total(), memory.weights, memory.gradients, memory.optimizer,
                                memory.activations, memory.buffers, memory.workspace})
      row.push_back(FormatBytes(bytes));
    rows.push_back(std::move(row));
  }
  return AlignedColumns(rows, 1);
}

std::string StageLines(const Plan& plan) {
  std::string out;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage& stage = plan.stages[s];
    std::string text = stage.first_node_name;
    if (stage.nodes.size() > 1) text += " .. " + stage.last_node_name;
    if (stage.node_ranges().size() > 9) text += fmt::format(" (nodes {})", stage.node_ranges());
    text += fmt::format(" on {}", fmt::join(stage.workers, ", "));
    text += fmt::format("; {} of parameters", FormatBytes(stage.parameter_bytes));
    if (stage.sent_bytes > 0)
      text += fmt::format(", {} sent per microbatch", FormatBytes(stage.sent_bytes));
    if (stage.recompute) text += ", backward computes forward again";
    out += WrappedText(fmt::format("stage {}: ", s), text, 9);
  }
  return out;
}

std::string PredictionLines(const Plan& plan) {
  std::string text = fmt::format("{} per minibatch ({:.3g} per second)", SecondsOrDash(plan.step_s),
                                 plan.step_s > 0 ? 1 / plan.step_s : 0);
  text += fmt::format(", busiest worker idle {:.0f} %", plan.bubble * 100);
  if (plan.bottleneck_s > 0) {
    text += fmt::format("; {} if everything overlapped", SecondsOrDash(plan.bottleneck_s));
  }
  std::string out = WrappedText("Predicted: ", text, 11);
  if (plan.data_parallel_bytes > 0) {
    const double share =
        static_cast<double>(plan.moved_bytes) / static_cast<double>(plan.data_parallel_bytes);
    text = fmt::format("{} per minibatch between workers, ", FormatBytes(plan.moved_bytes));
    text += share <= 1 ? fmt::format("{:.0f} % less than", (1 - share) * 100)
                       : fmt::format("{:.2g} times as much as", share);
    text += fmt::format(" data parallelism ({})", FormatBytes(plan.data_parallel_bytes));
    out += WrappedText("Moves: ", text, 11);
  }
  if (plan.optimality_gap > 0) {
    out +=
        WrappedText("Search: ",
                    fmt::format("bounded; no other plan is more than {:.2g} % faster by this rule",
                                plan.optimality_gap * 100),
                    11);
  }
  return out;
}

// Empty where all stages use the job's own rate.
std::string LearningRateLine(const Plan& plan) {
  const std::vector<double> scales = plan.learning_rate_scales();
  if (std::ranges::all_of(scales, [](double scale) { return scale == 1; })) return "";
  std::string text;
  for (size_t s = 0; s < scales.size(); ++s)
    text += fmt::format("{}{:.3g}", s == 0 ? "" : ", ", scales[s]);
  return WrappedText(
      "Learning rate: ",
      fmt::format("times {} by stage, as their replicas, so that every minibatch weighs "
                  "the same",
                  text),
      11);
}

std::string AlternativeLines(const Plan& plan) {
  size_t name = 0, config = 0;
  for (const PlanAlternative& other : plan.alternatives) {
    name = std::max(name, other.name.size());
    config = std::max(config, other.config.size());
  }
  config = std::min<size_t>(config, 24);
  std::string out = "Considered:\n";
  for (const PlanAlternative& other : plan.alternatives) {
    std::string head = fmt::format("  {:<{}}  {:<{}}  {:>8}  ", other.name, name, other.config,
                                   config, SecondsOrDash(other.step_s));
    out += WrappedText(std::move(head), other.reason, std::min<size_t>(name + config + 16, 60));
  }
  return out;
}

}  // namespace

std::string FormatPlanTable(const Plan& plan) {
  const int workers = plan.workers();
  std::string out =
      WrappedText("",
                  fmt::format("Plan {}: {} stage{} on {} worker{}, schedule {}, cost rule {}",
                              plan.config(), plan.stages.size(), plan.stages.size() == 1 ? "" : "s",
                              workers, workers == 1 ? "" : "s", plan.schedule, plan.rule),
                  2);
  out += "\n" + StageTable(plan) + "\n" + MemoryTable(plan) + "\n" + StageLines(plan) + "\n";
  out += PredictionLines(plan) + LearningRateLine(plan);
  if (!plan.alternatives.empty()) out += "\n" + AlternativeLines(plan);
  for (const std::string& warning : plan.warnings) out += WrappedText("Warning: ", warning, 9);
  return out;
}

}  // namespace pipedream
