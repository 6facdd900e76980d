#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/job/job_spec.h"
#include "common/planner/planner.h"

namespace pipedream {

// What a job's spec asks of the planner. Nodes whose outputs `recompute` keeps are looked up in the
// profiles. kInvalidArgument: an unknown schedule, a pattern that no node matches.
absl::StatusOr<PlanRequest> PlanRequestOf(const JobSpec& spec, std::vector<Profile> profiles,
                                          ClusterTopology topology);

// The job's own plan (JobSpec::plan), checked and reckoned anew, or the best one.
absl::StatusOr<Plan> PlanOf(const JobSpec& spec, const PlanRequest& request);

}  // namespace pipedream
