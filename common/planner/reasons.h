// Why a layout is what it is, in words.
#pragma once

#include <string>
#include <vector>

#include "common/planner/layout.h"

namespace pipedream {

// "the all-reduce of stage 0's 512.0 MiB of parameters"
std::string BoundBy(const LayoutCosts& costs, const Candidate& candidate);

// Why `other` is not the plan.
std::string WhyNot(const LayoutCosts& costs, const Candidate& other, const Candidate& chosen);

// "stage 2 (conv5 .. fc1) needs 9.10 GiB, worker w-3 has 8.00 GiB"
std::string MemoryLack(const LayoutCosts& costs, const Candidate& candidate);

// A stage bound by its link, a node that no cut can balance, stages that compute again, workers
// that stay idle.
std::vector<std::string> Warnings(const LayoutCosts& costs, const Candidate& chosen);

// "conv5 .. fc1"
std::string NodesOf(const Profile& profile, const std::vector<int>& nodes);

}  // namespace pipedream
