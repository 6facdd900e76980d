#pragma once

#include <absl/status/statusor.h>

#include "worker/engine/device_speed.h"

namespace pipedream {

// MeasureSpeed while no other worker of this host measures its own: they take turns by a lock on a
// file. Where there is none to be had, or nobody gives it up in time, it measures all the same.
absl::StatusOr<double> MeasureSpeedAlone(const KernelBackend& backend, Device* device,
                                         const SpeedOptions& options);

}  // namespace pipedream
