// Running statistics of replicated stages: all replicas advance them once an update, alike.
#pragma once

#include <cstdint>

#include "worker/engine/stage_state.h"

namespace pipedream {

// Adds a microbatch's share, which its forward left in its slot, to the update's sum (behind the
// gradients). `later`: how many microbatches with samples follow it in the update; `first`: nothing
// was added in this update yet.
void AddStateShare(StageState& stage, int64_t update, int32_t slot, int64_t later, bool first);

// Advances the statistics by an update of `filled` microbatches with samples.
void AdvanceStates(StageState& stage, int64_t update, int64_t filled);

}  // namespace pipedream
