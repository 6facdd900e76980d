// The training graph: forward, loss and gradient nodes in one Graph, made by a transformation of the
// forward graph. Which tensors a backward node reads from the forward pass is visible as plain edges,
// so the saved set, the memory and the cost of any cut are known without running anything.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/graph/graph.h"

namespace pipedream {

enum class Pass : uint8_t {
  kForward,
  kInputGradient,   // on the path to the gradient of an activation
  kWeightGradient,  // only leads to parameter gradients
};

struct LossTerm {
  enum class Kind { kCrossEntropy, kMse, kOutput };
  Kind kind = Kind::kCrossEntropy;
  std::string output;   // model output it reads; for kOutput: the scalar itself
  std::string label;    // name of the label input; empty for kOutput
  double weight = 1;
  bool operator==(const LossTerm&) const = default;
};

struct ParameterGradient {
  ValueId parameter;
  ValueId gradient;
};

struct TrainingGraph {
  Graph graph;
  // Per node of `graph`.
  std::vector<Pass> pass;
  // The forward node a node belongs to: itself for forward nodes. Stages are cut between forward
  // nodes; gradient nodes live where their origin lives.
  std::vector<NodeId> origin;
  std::vector<ParameterGradient> gradients;  // in order of the parameters' value ids
  ValueId loss = kNoValue;      // float32 scalar: the mean over the microbatch's samples
  ValueId correct = kNoValue;   // int64 scalar: right predictions of the first cross-entropy term
                                // (over all its positions), or kNoValue
  int forward_nodes = 0;        // nodes [0, forward_nodes) are forward, the rest gradients
  std::vector<NodeId> state_updates;  // forward nodes that only update running statistics
};

// Adds loss and gradients to a forward graph (training form). When a value has several consumers its
// gradient is summed from the last consumer to the first, whatever the cut, so that pipelined and
// one-process runs add in the same order. kInvalidArgument: an unknown output or label, shapes that
// do not fit the loss, an operator without gradient on the way to a parameter, no parameter at all.
absl::StatusOr<TrainingGraph> MakeTrainingGraph(const Graph& forward,
                                                const std::vector<LossTerm>& loss);

// Forward (inference form) and loss only, for evaluation; node names equal those of the training
// form, `stage_of` lookups by name therefore agree.
absl::StatusOr<TrainingGraph> MakeEvaluationGraph(const Graph& forward_inference,
                                                  const std::vector<LossTerm>& loss);

// One stage's share of a training graph.
struct StageGraph {
  std::vector<NodeId> forward;          // topological order
  std::vector<NodeId> input_gradient;
  std::vector<NodeId> weight_gradient;
  std::vector<ValueId> inputs;          // model inputs and labels that its nodes read
  std::vector<ValueId> received;        // forward values that enter from stage s-1, in value order
  std::vector<ValueId> sent;            // forward values that leave to stage s+1 (own or relayed)
  std::vector<ValueId> gradients_received;  // gradients that enter from s+1 (for float32 `sent`)
  std::vector<ValueId> gradients_sent;      // gradients that leave to s-1
  std::vector<ValueId> parameters;
  std::vector<ValueId> states;
  std::vector<ValueId> saved;           // forward values (own, received, inputs) that backward reads
};

// stage_of[n] for forward nodes n; must not decrease along edges, and every stage in
// [0, stages) must own a node. Values that skip stages are relayed. kInvalidArgument names the edge
// that runs backward, the empty stage, or the parameter that is read in two stages.
absl::StatusOr<std::vector<StageGraph>> CutStages(const TrainingGraph& training,
                                                  const std::vector<int>& stage_of, int stages);

}  // namespace pipedream
