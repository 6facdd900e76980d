#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/job/job_schedule.h"
#include "common/planner/planner.h"

namespace pipedream {

// The schedule asked for. kInvalidArgument names the field of the request that is wrong, its value
// and what is possible.
absl::StatusOr<JobSchedule> CheckRequest(const PlanRequest& request);

}  // namespace pipedream
