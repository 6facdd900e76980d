#pragma once

#include <string>

#include "common/plan/plan.h"

namespace pipedream {

// The plan for people: what runs where, predicted time and memory, what else was considered,
// warnings. At most 100 columns wide, except where a single worker id or node name is longer; ends
// with a newline.
std::string FormatPlanTable(const Plan& plan);

}  // namespace pipedream
