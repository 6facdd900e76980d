// A device with a pace of its own, for measuring on fewer cores than workers.
#pragma once

#include <memory>

#include "common/base/clock.h"
#include "worker/ops/op_kernel.h"

namespace pipedream {

// Kernels of `backend`, with one difference: a convolution and either of its gradients return only
// `pace` after they began (later if the kernel takes longer). They sleep meanwhile, as a thread
// does that waits for an accelerator, and leave the core to others.
std::unique_ptr<KernelBackend> MakePacedBackend(std::unique_ptr<KernelBackend> backend,
                                                Duration pace);

}  // namespace pipedream
