// Cuts into a given number of stages whose replicas are given too.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/planner/costs.h"

namespace pipedream {

struct StraightLimits {
  std::vector<int> replicas;      // one per stage
  std::vector<bool> cut;          // cut[n]: a stage may begin at node n; cut[0] is true
  std::vector<bool> significant;  // a stage must hold a node of these
};

// The division whose largest cost(stage, part) is least; of equals the one with the earliest cuts.
// nullopt if there are not so many stages. Calls `cost` O(stages cuts^2) times.
std::optional<Partition> LeastLargest(
    const StraightLimits& limits,
    const std::function<double(int stage, const StagePart& part)>& cost);

}  // namespace pipedream
