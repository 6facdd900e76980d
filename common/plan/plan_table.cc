#include "common/plan/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/base/units.h"

namespace pipedream {
namespace {

constexpr size_t kWidth = 100;

using Row = std::vector<std::string>;

// Columns two blanks apart; the first `left` are left-aligned, the others right-aligned.
std::string Aligned(const std::vector<Row>& rows, size_t left) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      line += c < left ? fmt::format("{:<{}}", row[c], widths[c])
                       : fmt::format("{:>{}}", row[c], widths[c]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

// `first` and then the words of `text`, broken at blanks; later lines are indented by `indent`.
std::string Wrapped(std::string first, std::string_view text, size_t indent) {
  std::string out, line = std::move(first);
  bool fresh = true;  // nothing of `text` on this line yet
  while (!text.empty()) {
    const size_t blank = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(std::min(blank + 1, text.size()));
    if (!fresh && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line = std::string(indent, ' ');
      fresh = true;
    }
    if (!fresh) line += ' ';
    line += word;
    fresh = false;
  }
  return out + line + "\n";
}

std::string Seconds(double seconds) { return seconds == 0 ? "-" : FormatSeconds(seconds); }

std::string StageTable(const Plan& plan) {
  std::vector<Row> rows = {{"stage", "nodes", "replicas", "compute", "sync", "send", "sent",
                            "memory", "versions", "warmup"}};
  const bool placed = !plan.device_of.empty();
  if (placed) rows[0].insert(rows[0].begin() + 1, "device");
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage& stage = plan.stages[s];
    const bool last = s + 1 == plan.stages.size();
    rows.push_back({fmt::format("{}", s), stage.node_ranges(),
                    fmt::format("{}", stage.replicas()), Seconds(stage.compute_s),
                    Seconds(stage.sync_s), last ? "-" : Seconds(stage.send_s),
                    last ? "-" : FormatBytes(stage.sent_bytes), FormatBytes(stage.memory.total()),
                    fmt::format("{}", stage.versions), fmt::format("{}", stage.warmup)});
    if (placed) rows.back().insert(rows.back().begin() + 1, fmt::format("{}", plan.device_of[s]));
  }
  return Aligned(rows, placed ? 3 : 2);
}

std::string MemoryTable(const Plan& plan) {
  std::vector<Row> rows = {{"memory", "parameters", "weights", "gradients", "optimizer",
                            "activations", "buffers", "workspace"}};
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const MemoryPrediction& memory = plan.stages[s].memory;
    Row row = {fmt::format("{}", s), FormatBytes(plan.stages[s].parameter_bytes)};
    for (const int64_t bytes : {memory.weights, memory.gradients, memory.optimizer,
                                memory.activations, memory.buffers, memory.workspace})
      row.push_back(FormatBytes(bytes));
    rows.push_back(std::move(row));
  }
  return Aligned(rows, 1);
}

std::string StageLines(const Plan& plan) {
  std::string out;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage& stage = plan.stages[s];
    const std::string nodes = stage.nodes.size() == 1
                                  ? stage.first_node_name
                                  : stage.first_node_name + " .. " + stage.last_node_name;
    out += Wrapped(fmt::format("stage {}: ", s),
                   fmt::format("{} on {}", nodes, fmt::join(stage.workers, ", ")), 9);
  }
  return out;
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
                                   config, Seconds(other.step_s));
    out += Wrapped(std::move(head), other.reason, std::min<size_t>(name + config + 16, 60));
  }
  return out;
}

}  // namespace

std::string FormatPlanTable(const Plan& plan) {
  const int workers = plan.workers();
  std::string out =
      Wrapped("",
              fmt::format("Plan {}: {} stage{} on {} worker{}, schedule {}, cost rule {}",
                          plan.config(), plan.stages.size(), plan.stages.size() == 1 ? "" : "s",
                          workers, workers == 1 ? "" : "s", plan.schedule, plan.rule),
              2);
  out += "\n" + StageTable(plan) + "\n" + MemoryTable(plan) + "\n" + StageLines(plan) + "\n";
  out += Wrapped(
      "",
      fmt::format("Predicted: {} per minibatch ({:.3g} per second), busiest worker idle {:.0f} %",
                  Seconds(plan.step_s), plan.step_s > 0 ? 1 / plan.step_s : 0, plan.bubble * 100),
      2);
  if (!plan.alternatives.empty()) out += "\n" + AlternativeLines(plan);
  for (const std::string& warning : plan.warnings) out += Wrapped("Warning: ", warning, 9);
  return out;
}

}  // namespace pipedream
