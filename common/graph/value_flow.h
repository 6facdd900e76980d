// Where the values of a training graph are made and read, in units of places: stages or positions.
// Shared by CutStages and PrefixCuts.
#pragma once

#include <vector>

#include "common/graph/training_graph.h"

namespace pipedream {

// Where gradients of one value that come from several places are added up.
enum class SumPlace {
  kProducer,  // where the value is made, so that every part goes straight there
  kFirst,     // at the first of those places: on its side of any boundary between them
};

// Per node of the graph, given place_of[forward node]. A gradient node's place is that of its
// origin; but a value's gradients that come from one place are added there, and else as
// `sum_place` says. (A parameter is made nowhere: its gradients are added where it is read.) A node
// that only updates running statistics is where these are made: evaluation reads them there.
std::vector<int> PlacesOf(const TrainingGraph& training, const std::vector<int>& place_of,
                          SumPlace sum_place);

struct ValueFlow {
  int made = -1;          // place of the producer; -1 without one
  std::vector<int> read;  // where it is read: ascending, each place once
  bool gradient = false;  // made by a gradient node
};

// Per value, given the nodes' places. A parameter's gradient counts as read where it is made, and a
// sum over readers of a parameter elsewhere as not read: each place has a sum of its own.
std::vector<ValueFlow> FlowOf(const TrainingGraph& training, const std::vector<int>& places);

}  // namespace pipedream
