// Every operator of docs/operators.md in double precision by plain loops, written from the formulas
// and apart from all kernels: what kernels and gradient rules are checked against.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "common/graph/graph.h"

namespace pipedream {

// Row-major elements; integers as doubles.
using ReferenceTensor = std::vector<double>;

// Outputs of `node` of `graph`, one per entry of node.outputs. `inputs` has one entry per entry of
// node.inputs, empty where an optional input is absent. Only the graph's shapes are read.
// - Workspaces are the reference's own: MaxPool's holds for each output the offset in x of its
//   (first) maximum, LRN's is empty. Give MaxPoolGrad the one that the reference's MaxPool made.
// - UpdateRunningStatistics has no outputs; here it returns the new running mean and variance.
// - Dropout's mask here depends on `key` and the element only.
// kUnimplemented for an operator that it does not know.
absl::StatusOr<std::vector<ReferenceTensor>> RunReference(
    const Graph& graph, const Node& node, const std::vector<ReferenceTensor>& inputs);

// Runs all nodes in order, or the first `nodes` of them if that is >= 0; returns one tensor per
// value of the graph (states as they were before). Values without producer are taken from `given`
// by name, else from their data; kInvalidArgument names one that has neither.
absl::StatusOr<std::vector<ReferenceTensor>> RunReferenceGraph(
    const Graph& graph, const std::map<std::string, ReferenceTensor>& given = {}, int nodes = -1);

}  // namespace pipedream
