// Turns a stage's share of a training graph into prepared kernels with all memory planned.
#pragma once

#include <absl/status/statusor.h>

#include "common/graph/training_graph.h"
#include "worker/engine/compiled_stage.h"
#include "worker/engine/recompute.h"

namespace pipedream {

struct CompileOptions {
  bool fused_backward = true;   // CompiledStage::backward
  bool split_backward = false;  // backward_input and backward_weight
  Recompute recompute;
};

// `samples` is the microbatch size that `training` was bound to. The first call for a stage gets an
// empty `layout` and fills it, choosing the storage layout of each parameter by its first reader;
// calls for other sizes, or for the evaluation form, get that layout and keep it (tensors are
// matched by name). What the programs compute does not depend on the options, bit for bit. Errors:
// what the backend cannot do, with the node named.
absl::StatusOr<CompiledStage> CompileStage(const TrainingGraph& training, const StageGraph& stage,
                                           const KernelBackend& backend, int64_t samples,
                                           const CompileOptions& options, StageLayout* layout);

}  // namespace pipedream
