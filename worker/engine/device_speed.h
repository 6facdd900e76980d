// How fast a worker computes, in one number that can be compared between workers of one kind: a
// fixed small network, forward and backward, on the kernels that training uses.
#pragma once

#include <absl/status/statusor.h>

#include <functional>

#include "worker/device/device.h"
#include "worker/ops/op_kernel.h"

namespace pipedream {

struct SpeedOptions {
  double window_s = 0.15;  // of measuring
  // Where the threads get the processor for less than 9/10 of the window (a limit in their control
  // group, a busy neighbour), the better of two that are this long counts: they hold several
  // scheduling periods, and a neighbour may leave.
  double long_window_s = 0.5;
  int threads = 1;      // of the backend
  double slowdown = 1;  // every pass is followed by a sleep: so many times as slow
  std::function<bool()> cancelled = [] { return false; };
};

// Floating-point operations per second, over the whole window: a worker that is stopped half of the
// time is half as fast. A step whose memory does not fit into the device is kResourceExhausted.
absl::StatusOr<double> MeasureSpeed(const KernelBackend& backend, Device* device,
                                    const SpeedOptions& options);

}  // namespace pipedream
