// The training graph: forward, loss and gradient nodes in one Graph, made by a transformation of
// the forward graph. Which tensors a backward node reads from the forward pass is visible as plain
// edges, so the saved set, the memory and the cost of any cut are known without running anything.
#pragma once

#include <absl/status/statusor.h>

#include <compare>
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
  std::string output;  // model output it reads; for kOutput: the scalar itself
  std::string label;   // name of the label input; empty for kOutput
  double weight = 1;
  bool operator==(const LossTerm&) const = default;
};

struct ParameterGradient {
  ValueId parameter;
  ValueId gradient;
  int stage = -1;  // whose share it is, for a parameter that several stages read; else -1
};

struct TrainingGraph {
  Graph graph;
  // Per node of `graph`.
  std::vector<Pass> pass;
  // The forward node a node belongs to: itself for forward nodes. Stages are cut between forward
  // nodes; gradient nodes live where their origin lives.
  std::vector<NodeId> origin;
  // The forward value whose gradient a node sums over the value's readers (an Add of what the later
  // readers gave and what its origin gives); kNoValue for all other nodes.
  std::vector<ValueId> sum_of;
  std::vector<ParameterGradient> gradients;  // by the parameters' value ids, then by stage
  ValueId loss = kNoValue;     // float32 scalar: the mean over the microbatch's samples
  ValueId correct = kNoValue;  // int64 scalar: right predictions of the first cross-entropy term
                               // (over all its positions), or kNoValue
  int forward_nodes = 0;       // nodes [0, forward_nodes) are forward, the rest gradients
  std::vector<NodeId> state_updates;  // forward nodes that only update running statistics
};

// Adds loss and gradients to a forward graph (training form). When a value has several consumers
// its gradient is summed from the last consumer to the first, whatever the cut, so that pipelined
// and one-process runs add in the same order. A parameter's gradient is summed so too; with
// `stage_of` (per forward node of the result, loss included) every stage that reads the parameter
// gets a sum of its own, over its own readers. kInvalidArgument: an unknown output or label, shapes
// that do not fit the loss, an operator without gradient on the way to a parameter, no parameter at
// all, a `stage_of` of another length.
absl::StatusOr<TrainingGraph> MakeTrainingGraph(const Graph& forward,
                                                const std::vector<LossTerm>& loss,
                                                const std::vector<int>& stage_of = {});

// Forward (inference form) and loss only, for evaluation; node names equal those of the training
// form, `stage_of` lookups by name therefore agree.
absl::StatusOr<TrainingGraph> MakeEvaluationGraph(const Graph& forward_inference,
                                                  const std::vector<LossTerm>& loss);

// Values that one stage sends to another for every microbatch.
struct StageMessage {
  int stage = 0;                // at the other end
  std::vector<ValueId> values;  // at least one, in value order
  bool operator==(const StageMessage&) const = default;
};

// A parameter of which several stages hold a copy.
struct SharedParameter {
  ValueId parameter;
  std::vector<int> stages;  // ascending
  bool operator==(const SharedParameter&) const = default;
};

// One stage's share of a training graph. Messages are in order of the other stage.
struct StageGraph {
  std::vector<NodeId> forward;          // topological order, as the other two
  std::vector<NodeId> input_gradient;   // all that leads to gradients_sent, at least
  std::vector<NodeId> weight_gradient;  // the rest: nothing in input_gradient reads it
  std::vector<ValueId> inputs;          // model inputs and labels that its nodes read
  std::vector<StageMessage> received;   // forward values, from the stages that make them
  std::vector<StageMessage> sent;       // own forward values, to each stage that reads them
  std::vector<StageMessage> gradients_received;  // from the stages that make them
  std::vector<StageMessage> gradients_sent;      // own gradients, to each stage that reads them
  std::vector<ValueId> parameters;
  std::vector<ValueId> states;
  std::vector<ValueId> saved;  // forward values (own, received, inputs) that backward reads
  std::vector<ParameterGradient> gradients;  // of its parameters; its share of shared ones
  std::vector<SharedParameter> shared;       // those of its parameters that other stages hold too
};

// stage_of[n] for forward nodes n; must not decrease along edges, and every stage in
// [0, stages) must own a node. A value goes straight from the stage that makes it to each stage
// that reads it. Where a value's gradient comes from several readers, what comes from one stage is
// added there, what comes from several on the stage that made the value; the order of addition is
// the training graph's. Running statistics are updated where they are made, whatever stage_of says.
// With `share_parameters` several stages may read one parameter, if `training` was made for
// `stage_of`. kInvalidArgument names the edge that runs backward, the empty stage, or the parameter
// that is read in two stages (with sharing: that has no gradient in one of them).
absl::StatusOr<std::vector<StageGraph>> CutStages(const TrainingGraph& training,
                                                  const std::vector<int>& stage_of, int stages,
                                                  bool share_parameters = false);

// Stage `from` sends to stage `to`: forward values, or gradients.
struct StageEdge {
  int from = 0;
  int to = 0;
  bool gradient = false;
  auto operator<=>(const StageEdge&) const = default;
};
// Who sends to whom, sorted. `stages` as CutStages gave them.
std::vector<StageEdge> EdgesOf(const std::vector<StageGraph>& stages);

}  // namespace pipedream
