// How to part a model that one worker's memory does not hold, so that it can be profiled.
#pragma once

#include <cstdint>
#include <vector>

#include "common/graph/training_graph.h"
#include "common/plan/profile.h"

namespace pipedream {

// The piece of every forward node, ascending from 0: consecutive nodes, as few pieces as fit into
// `limit_bytes` each, and among those the cuts that fewest bytes cross; no parameter's readers are
// parted if that can be. `sizes` is SizesOf `training`, `optimizer_tensors` the number of those of
// the parameters' size. What a piece takes is estimated; a node that is too large is a piece of its
// own, for the device to refuse. Pure.
std::vector<int> ChoosePieces(const TrainingGraph& training, const Profile& sizes,
                              int optimizer_tensors, int64_t limit_bytes);

}  // namespace pipedream
