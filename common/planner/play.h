// What a schedule needs and takes on a given division, from its own table and not from a formula.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/job/job_schedule.h"
#include "common/planner/planner.h"
#include "common/schedule/simulate.h"

namespace pipedream {

struct Played {
  double step_s = 0;  // per minibatch: in the long run if asynchronous, else of all that was played
  std::vector<StageNeeds> needs;  // per stage
  std::vector<int> warmup;        // per stage: forwards before the first backward, less one
};

// Plays the request's schedule: a minibatch if it is synchronous, else twice what is in flight; a
// table that is a whole run, all of it. `layout` has replicas, devices, warm-up, edges and ties.
// Only `with_needs`: needs and warm-up, which take much longer than the time; they are those of a
// run as long as it takes. kInvalidArgument: the schedule cannot serve that layout.
absl::StatusOr<Played> Play(const PlanRequest& request, const JobSchedule& schedule,
                            const ScheduleShape& layout, const SimulateOptions& costs,
                            bool with_needs);

}  // namespace pipedream
