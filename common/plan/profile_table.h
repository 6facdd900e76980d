#pragma once

#include <string>

#include "common/plan/plan.h"
#include "common/plan/profile.h"

namespace pipedream {

// A profile for people: what every node costs, sums, the nodes that take most. Ends with a newline.
std::string FormatProfileTable(const Profile& profile);

// Why the plan's stages weigh what they do: the nodes of each that take most time. REQUIRES: a
// profile of the plan's model.
std::string FormatStageNodes(const Plan& plan, const Profile& profile);

}  // namespace pipedream
