// Running statistics of replicated stages: all replicas advance them once a round, alike.
#pragma once

#include <cstdint>

#include "worker/engine/stage_state.h"

namespace pipedream {

// Adds a microbatch's share, which its forward left in its slot, to the round's sum (behind the
// gradients). `later`: how many microbatches with samples follow it in the round; `first`: nothing
// was added in this round yet.
void AddStateShare(StageState& stage, int32_t slot, int64_t later, bool first);

// Advances the statistics by a round of `filled` microbatches with samples.
void AdvanceStates(StageState& stage, int64_t filled);

}  // namespace pipedream
