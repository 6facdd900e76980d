// What every cut of a training graph into a first and a second part would cost: the raw material
// of partitioning.
#pragma once

#include <cstdint>
#include <vector>

#include "common/graph/training_graph.h"

namespace pipedream {

// The cut behind forward node i: nodes [0, i] before it, the rest after it.
struct CutInfo {
  int64_t forward_bytes = 0;            // computed values made before it and read after it
  int64_t gradient_bytes = 0;           // gradients made after it and read before it, those of
                                        // parameters excepted: each side keeps its own share
  ValueId shared_parameter = kNoValue;  // a parameter that is read on both sides

  bool legal() const { return shared_parameter == kNoValue; }
  bool operator==(const CutInfo&) const = default;
};

// What goes between stages if they part the nodes that make and read it. Forward nodes; a gradient
// is made where its value is read, and goes back to where that was made.
struct CrossingTensor {
  ValueId value = kNoValue;
  int made = 0;
  std::vector<int> readers;  // ascending, without `made`
  bool gradient = false;
};
// In order of the values.
std::vector<CrossingTensor> CrossingTensors(const TrainingGraph& training);
// The readers of each parameter that has several, ascending.
std::vector<std::vector<int>> TiedNodes(const TrainingGraph& training);

// One entry per forward node but the last.
std::vector<CutInfo> PrefixCuts(const TrainingGraph& training);

}  // namespace pipedream
