#pragma once

#include <absl/status/statusor.h>

#include "coordinator/job/effects.h"

namespace pipedream {

// The plan of a job and the program of every worker in it. Pure but for Plan::planning_s; seconds
// at most. Errors: those of MakePlan and MakePrograms.
absl::StatusOr<PlannedRun> PlanRun(const ComputePlan& request);

}  // namespace pipedream
