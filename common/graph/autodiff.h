// Differentiation of a graph: adds gradient nodes behind the forward nodes. Used by
// MakeTrainingGraph only.
#pragma once

#include <absl/status/statusor.h>

#include "common/graph/graph.h"
#include "common/graph/training_graph.h"

namespace pipedream {

// `builder` holds the forward nodes and the loss, a float32 scalar. Fills everything of the result
// but graph, loss, correct and state_updates. Errors as MakeTrainingGraph.
absl::StatusOr<TrainingGraph> AddGradients(GraphBuilder& builder, ValueId loss);

}  // namespace pipedream
