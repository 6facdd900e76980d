// Where the values of a training graph are made and read, in units of places: stages or positions.
// Shared by CutStages and PrefixCuts.
#pragma once

#include <limits>
#include <vector>

#include "common/graph/training_graph.h"

namespace pipedream {

struct ValueFlow {
  int made = -1;  // place of the producer; -1 without one
  int first_read = std::numeric_limits<int>::max();
  int last_read = -1;     // -1: nothing reads it
  bool gradient = false;  // made by a gradient node
};

// Per value. A node's place is that of its origin, place_of[forward node]. A parameter's gradient
// counts as read where the parameter is.
std::vector<ValueFlow> FlowOf(const TrainingGraph& training, const std::vector<int>& place_of);

}  // namespace pipedream
