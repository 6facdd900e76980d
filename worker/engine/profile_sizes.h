// The sizes of a profile: they follow from the compiled model, nothing runs for them.
#pragma once

#include <cstdint>

#include "common/graph/training_graph.h"
#include "common/plan/profile.h"
#include "worker/engine/compiled_stage.h"

namespace pipedream {

// The nodes of a model compiled as one stage, without their times, and what goes between them.
//
// Bytes count as they are stored (in the kernels' layouts, rounded up to whole cache lines), so
// that sums over nodes are what a stage allocates. Parameters, states and constants belong to their
// first reader; what is kept for backward to the node whose gradient reads it, or, if several do,
// to the tensor.
Profile SizesOf(const TrainingGraph& training, const CompiledStage& compiled,
                const StageLayout& layout);

// What a stage of the whole model takes while it is profiled: one weight version, one gradient, one
// slot, `optimizer_tensors` of the parameters' size.
int64_t BytesToProfile(const CompiledStage& compiled, const StageLayout& layout,
                       int optimizer_tensors);

}  // namespace pipedream
