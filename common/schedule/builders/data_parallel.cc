#include "common/base/status.h"
#include "common/schedule/builders/builders.h"

namespace pipedream {

absl::Status CheckDataParallel(const ScheduleShape& shape) {
  PD_RETURN_IF_ERROR(Validate(shape));
  if (shape.stages() == 1) return absl::OkStatus();
  return InvalidArgument(
      "replicas: {} stages, but schedule 'data_parallel' has one: leave 'stages' to the planner, "
      "or "
      "say 1",
      shape.stages());
}

}  // namespace pipedream
