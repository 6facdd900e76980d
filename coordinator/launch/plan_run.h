#pragma once

#include <absl/status/statusor.h>

#include "common/graph/model.h"
#include "coordinator/job/effects.h"

namespace pipedream {

// The plan of a job and the program of every worker in it. Pure but for Plan::planning_s; seconds
// at most. `model` is the job's. Errors: those of MakePlan, SetStageFlow and MakePrograms.
absl::StatusOr<PlannedRun> PlanRun(const ComputePlan& request, const Model& model);

// The plan that runs and the best one, both reckoned by what the run measured.
absl::StatusOr<PlanReconsidered::Answer> Reconsider(const ReconsiderPlan& request);

}  // namespace pipedream
