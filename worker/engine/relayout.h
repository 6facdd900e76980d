// Between the layouts of a tensor in memory, outside the step loop.
#pragma once

#include <absl/status/status.h>

#include "worker/ops/op_kernel.h"

namespace pipedream {

// Copies a tensor from one layout to another of the same shape and type. Allocates; errors as
// KernelBackend::PrepareReorder.
absl::Status Relayout(const KernelBackend& backend, const TensorSpec& from, const TensorSpec& to,
                      const void* source, void* target);

}  // namespace pipedream
