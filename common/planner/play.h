// What a schedule needs and takes on a given division, from its own table and not from a formula.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/job/job_schedule.h"
#include "common/schedule/simulate.h"
#include "common/planner/planner.h"

namespace pipedream {

struct Played {
  double step_s = 0;              // seconds per minibatch, over the whole of what was played
  std::vector<StageNeeds> needs;  // per stage
  std::vector<int> warmup;        // per stage: forwards before the first backward, less one
};

// Plays the request's schedule: a minibatch if it is synchronous, else twice what is in flight; a
// table that is a whole run, all of it. What it needs is that of a run as long as it takes. `layout` has
// replicas and devices. kInvalidArgument: the schedule cannot serve that layout.
absl::StatusOr<Played> Play(const PlanRequest& request, const JobSchedule& schedule,
                            const ScheduleShape& layout, const SimulateOptions& costs);

}  // namespace pipedream
