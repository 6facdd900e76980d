// Measures a model node by node on this worker's own kernels and layouts.
//
// Sizes come from compiling the whole model as one stage; nothing is allocated for that. Times come
// from whole steps, forward, backward and update, with the clock read around every kernel. Kernels
// that do the same work (equal operator, attributes, types, shapes and layouts), of whatever nodes,
// pool their samples and get their median: a model that repeats a block a hundred times has a
// hundred samples of each kernel after one step, so that few steps are enough. There are at least
// two, then as many as the budget allows. In the end all times are scaled so that their sum is that
// of a whole step.
//
// A model that this device's memory does not hold is run in consecutive pieces that fit, one after
// the other, cut where few bytes cross; each piece's times are scaled by its own steps. Sizes are
// those of the whole model all the same.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>

#include "common/graph/model.h"
#include "common/job/job_spec.h"
#include "common/job/run_shape.h"
#include "common/plan/profile.h"
#include "worker/device/device.h"
#include "worker/ops/op_kernel.h"

namespace pipedream {

struct ProfilerOptions {
  double budget_s = 2;  // of running; two steps are made in any case
  double slowdown = 1;  // all times become so many times as long
  // Asked between kernels; true stops with kCancelled.
  std::function<bool()> cancelled = [] { return false; };
};

// Inputs are without meaning, weights stay as they are. `spec` is resolved. kResourceExhausted if
// the device cannot hold even a single node with its parameters.
absl::StatusOr<Profile> ProfileModel(const std::shared_ptr<const Model>& model, const JobSpec& spec,
                                     const RunShape& run, const KernelBackend& backend,
                                     Device* device, const ProfilerOptions& options);

}  // namespace pipedream
