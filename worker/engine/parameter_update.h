// Loops over the parameters of a stage: microbatch sums, norms, the optimizer. They run in the
// layout's order and allocate nothing.
#pragma once

#include <vector>

#include "worker/engine/run_steps.h"
#include "worker/engine/stage_state.h"
#include "worker/optim/optimizer.h"

namespace pipedream {

void ScaleInPlace(float* values, size_t count, float factor);
// sum += factor * values
void AddScaled(float* sum, const float* values, size_t count, float factor);

// Makes `stage.gradients` the sum of the microbatches' gradients so far, each with its weight. The
// first of an update is there already, the others come in stage.microbatch_gradients.
void AddMicrobatchGradients(StageState& stage, bool first, float weight);

// Squared norm of each parameter's gradient into stage.norms, zeros for all others. Of several
// copies of a parameter the first stage's counts.
void SquaredNorms(StageState& stage);

// Runs the optimizer over every parameter, from version `from` to `to` (which may be `from`).
// `arguments` has rate, scale and step, and room in `state` for the optimizer's state tensors.
// Returns the first parameter whose gradient is not finite, null if there is none.
const StoredTensor* UpdateParameters(StageState& stage, const std::byte* from, std::byte* to,
                                     UpdateArguments* arguments, StepObserver* observer = nullptr);

}  // namespace pipedream
