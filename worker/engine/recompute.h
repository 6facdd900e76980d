// Which forward values backward finds in memory and which it computes again (activation
// checkpointing; Chen et al., "Training deep nets with sublinear memory cost", 2016). Works on the
// graph alone.
#pragma once

#include <set>
#include <vector>

#include "common/graph/training_graph.h"

namespace pipedream {

struct Recompute {
  // Keep only what enters the stage (model inputs, received values), the checkpoints' outputs, and
  // what cannot be made again: what was read from a running statistic. Otherwise all that backward
  // reads is kept but what follows from weights alone (a transposed weight): backward makes that
  // again of the version that it reads, so that no slot holds copies of weights. Results are the
  // same to the bit, unless the weights change between forward and backward (kSingle): what is
  // made again is then made with the newer ones.
  bool enabled = false;
  // Forward nodes of the training graph, of any stage. They end the segments that are computed
  // again one at a time, the last first.
  std::vector<NodeId> checkpoints;
};

// The backward programs of one stage. A program over some gradient nodes computes again what these
// read, directly or not, and that is not kept. Dropout's masks are functions of the sample, so a
// node run again gives what it gave; nodes that update states are never run again.
class BackwardPlan {
 public:
  // Borrows both.
  BackwardPlan(const TrainingGraph& training, const StageGraph& stage, const Recompute& recompute);

  // `gradient_nodes` in topological order, and the forward nodes to run again: a whole segment
  // before the first that reads from it. A value that crosses segments is made once, early.
  std::vector<NodeId> Order(std::vector<NodeId> gradient_nodes) const;
  // The kept forward values that Order's nodes read.
  std::set<ValueId> Kept(const std::vector<NodeId>& gradient_nodes) const;

 private:
  // The forward node that makes `value` again; kNoNode if the value is kept or is no such value.
  NodeId MakerOf(ValueId value) const;
  // Forward nodes to run again for `gradient_nodes`.
  std::set<NodeId> AgainFor(const std::vector<NodeId>& gradient_nodes) const;
  int SegmentOf(NodeId node) const;
  bool FollowsFromWeights(ValueId value) const;

  const TrainingGraph& training_;
  const Graph& graph_;
  const bool enabled_;
  std::set<NodeId> kept_;            // forward nodes of the stage whose outputs are kept
  std::set<NodeId> own_;             // forward nodes of the stage
  std::set<NodeId> derived_;         // those that read nothing but weights and constants
  std::vector<NodeId> checkpoints_;  // of the stage, ascending
};

}  // namespace pipedream
