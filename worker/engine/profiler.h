// Measures a model node by node on this worker's own kernels and layouts.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

#include "common/graph/model.h"
#include "common/job/job_spec.h"
#include "common/plan/profile.h"
#include "worker/device/device.h"
#include "worker/ops/op_kernel.h"

namespace pipedream {

struct ProfilerOptions {
  double budget_s = 2;  // of measuring; at least two repetitions are made
  // Asked between steps; true stops with kCancelled.
  std::function<bool()> cancelled = [] { return false; };
};

// Runs the whole model as one stage on inputs without meaning, times every kernel, and scales so
// that the sum matches whole steps. Needs memory for the model on this device; kResourceExhausted
// if it is not there. `spec` is resolved.
absl::StatusOr<Profile> ProfileModel(const std::shared_ptr<const Model>& model, const JobSpec& spec,
                                     const RunShape& run, const KernelBackend& backend,
                                     Device* device, const ProfilerOptions& options);

}  // namespace pipedream
