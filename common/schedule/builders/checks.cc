#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/schedule/builders/builders.h"

namespace pipedream {

absl::Status CheckOneStagePerDevice(const ScheduleShape& shape, std::string_view schedule) {
  PD_RETURN_IF_ERROR(Validate(shape));
  if (shape.devices() == shape.stages()) return absl::OkStatus();
  return InvalidArgument(
      "device_of: {} stages on {} devices, but schedule '{}' has one stage per device: use "
      "'interleaved' or 'zb_v' for more",
      shape.stages(), shape.devices(), schedule);
}

absl::Status CheckUpdatePerMinibatch(const ScheduleShape& shape, std::string_view schedule) {
  PD_RETURN_IF_ERROR(CheckOneStagePerDevice(shape, schedule));
  for (int s = 0; s < shape.stages(); ++s) {
    if (shape.replicas[s] <= shape.microbatches_per_minibatch) continue;
    return InvalidArgument(
        "replicas: {} at stage {}, but a minibatch has only {} microbatches, so that some would "
        "have "
        "nothing to do in '{}': use more microbatches or fewer replicas",
        shape.replicas[s], s, shape.microbatches_per_minibatch, schedule);
  }
  return absl::OkStatus();
}

absl::Status CheckPlacement(const ScheduleShape& shape, const std::vector<int>& device_of,
                            std::string_view schedule) {
  PD_RETURN_IF_ERROR(Validate(shape));
  std::vector<int> found;
  for (int s = 0; s < shape.stages(); ++s) found.push_back(DeviceOf(shape, StageId(s)));
  if (found != device_of) {
    return InvalidArgument("device_of: stages on devices {}, but schedule '{}' places them on {}",
                           fmt::join(found, ","), schedule, fmt::join(device_of, ","));
  }
  if (std::any_of(shape.replicas.begin(), shape.replicas.end(),
                  [&](int r) { return r != shape.replicas[0]; })) {
    return InvalidArgument("replicas: {}, but schedule '{}' takes the same number for all stages",
                           fmt::join(shape.replicas, ","), schedule);
  }
  if (!shape.warmup.empty()) {
    return InvalidArgument("warmup: given, but schedule '{}' has a warm-up of its own", schedule);
  }
  return absl::OkStatus();
}

OwnMicrobatches OwnOf(const ScheduleShape& shape, StageId stage, ReplicaId replica,
                      int64_t minibatch) {
  const int64_t m = shape.microbatches_per_minibatch;
  const int64_t r = shape.replicas[stage.value()];
  const int64_t begin = minibatch * m, end = begin + m;
  // The first microbatch of the minibatch that is congruent to the replica modulo r.
  const int64_t first = begin + ((replica.value() - begin) % r + r) % r;
  return {first, r, first < end ? (end - 1 - first) / r + 1 : 0};
}

}  // namespace pipedream
