// Asks the coordinator to measure a job's model and links, and to plan it.
#pragma once

#include <absl/status/statusor.h>

#include "client/commands/commands.h"
#include "client/render/plan_json.h"

namespace pipedream {

struct MeasureResult {
  int exit_code = 0;  // else it was interrupted, and nothing below is set
  JobSpec spec;       // resolved
  Plan plan;          // unless only measured
  PlanOrigin origin;
};

// Uploads what the coordinator lacks; progress and warnings on the terminal.
absl::StatusOr<MeasureResult> AskForPlan(const CommandContext& context, const JobOptions& job,
                                         double timeout_s, bool measure_only);

}  // namespace pipedream
