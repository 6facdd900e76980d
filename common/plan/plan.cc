#include "common/plan/plan.h"

#include <fmt/format.h>

namespace pipedream {

std::vector<int> Plan::replicas() const {
  std::vector<int> out;
  for (const PlanStage& stage : stages) out.push_back(stage.replicas());
  return out;
}

std::string Plan::config() const { return fmt::format("{}", fmt::join(replicas(), "-")); }

std::vector<int> Plan::warmup() const {
  std::vector<int> out;
  for (const PlanStage& stage : stages) out.push_back(stage.warmup);
  return out;
}

std::vector<int> Plan::stage_of() const {
  std::vector<int> out;
  for (size_t s = 0; s < stages.size(); ++s)
    out.resize(stages[s].last_node + 1, static_cast<int>(s));
  return out;
}

}  // namespace pipedream
