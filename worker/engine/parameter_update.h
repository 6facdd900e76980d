// Loops over the parameters of a stage: microbatch sums, norms, the optimizer. They run in the
// layout's order and allocate nothing.
#pragma once

#include <cstdint>
#include <span>

#include "worker/engine/run_steps.h"
#include "worker/engine/stage_state.h"
#include "worker/optim/optimizer.h"

namespace pipedream {

void ScaleInPlace(float* values, size_t count, float factor);
// sum += factor * values
void AddScaled(float* sum, const float* values, size_t count, float factor);

// Makes the update's gradient sum that of the microbatches so far, each with its weight. The first
// of an update is there already, the others come in stage.microbatch_gradients.
void AddMicrobatchGradients(StageState& stage, int64_t update, bool first, float weight);

// Squared norm of each parameter's gradient in the update into `norms`, which has an entry per
// parameter of the whole model; others stay as they are, those that several stages hold among them:
// a stage has but a part of their gradients.
void SquaredNorms(const StageState& stage, int64_t update, std::span<double> norms);
// Whether the update's gradients are all finite.
bool GradientsAreFinite(const StageState& stage, int64_t update);

// Runs the optimizer over every parameter with the gradients of `update`, from version `from` to
// `to` (which may be `from`).
// `arguments` has rate, scale and step, and room in `state` for the optimizer's state tensors.
// Returns the first parameter whose gradient is not finite, null if there is none.
const StoredTensor* UpdateParameters(StageState& stage, int64_t update, const std::byte* from,
                                     std::byte* to, UpdateArguments* arguments,
                                     StepObserver* observer = nullptr);

}  // namespace pipedream
