// Differentiation of a graph: adds gradient nodes behind the forward nodes. Used by
// MakeTrainingGraph only.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/graph/graph.h"
#include "common/graph/training_graph.h"

namespace pipedream {

// `builder` holds the forward nodes and the loss, a float32 scalar. Fills everything of the result
// but graph, loss, correct and state_updates. `stage_of` and errors as MakeTrainingGraph.
absl::StatusOr<TrainingGraph> AddGradients(GraphBuilder& builder, ValueId loss,
                                           const std::vector<int>& stage_of);

}  // namespace pipedream
