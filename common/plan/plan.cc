#include "common/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace pipedream {

std::string PlanStage::node_ranges() const {
  std::string out;
  for (size_t i = 0; i < nodes.size();) {
    size_t last = i;
    while (last + 1 < nodes.size() && nodes[last + 1] == nodes[last] + 1) ++last;
    if (!out.empty()) out += ", ";
    out += last == i ? fmt::format("{}", nodes[i]) : fmt::format("{}-{}", nodes[i], nodes[last]);
    i = last + 1;
  }
  return out;
}

std::vector<int> Plan::replicas() const {
  std::vector<int> out;
  for (const PlanStage& stage : stages) out.push_back(stage.replicas());
  return out;
}

int Plan::devices() const {
  if (device_of.empty()) return static_cast<int>(stages.size());
  return *std::max_element(device_of.begin(), device_of.end()) + 1;
}

int Plan::workers() const {
  std::set<std::string> ids;
  for (const PlanStage& stage : stages) ids.insert(stage.workers.begin(), stage.workers.end());
  return static_cast<int>(ids.size());
}

std::string Plan::config() const {
  const std::string text = fmt::format("{}", fmt::join(replicas(), "-"));
  if (device_of.empty()) return text;
  return fmt::format("{} on {} device{}", text, devices(), devices() == 1 ? "" : "s");
}

std::vector<int> Plan::warmup() const {
  std::vector<int> out;
  if (own_warmup) return out;
  for (const PlanStage& stage : stages) out.push_back(stage.warmup);
  return out;
}

std::vector<double> Plan::learning_rate_scales() const {
  std::vector<double> out;
  for (const PlanStage& stage : stages)
    out.push_back(static_cast<double>(stage.replicas()) / stages[0].replicas());
  return out;
}

std::vector<int> Plan::stage_of() const {
  size_t count = 0;
  for (const PlanStage& stage : stages) count += stage.nodes.size();
  std::vector<int> out(count);
  for (size_t s = 0; s < stages.size(); ++s)
    for (const int node : stages[s].nodes) out[node] = static_cast<int>(s);
  return out;
}

}  // namespace pipedream
