#include "common/graph/value_flow.h"

#include <algorithm>

namespace pipedream {

std::vector<ValueFlow> FlowOf(const TrainingGraph& training, const std::vector<int>& place_of) {
  const Graph& graph = training.graph;
  std::vector<ValueFlow> flow(graph.values().size());
  auto read = [&](ValueId id, int place) {
    ValueFlow& f = flow[id.value()];
    f.first_read = std::min(f.first_read, place);
    f.last_read = std::max(f.last_read, place);
  };
  for (int i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId(i));
    int place = place_of[training.origin[i].value()];
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      flow[id.value()].made = place;
      flow[id.value()].gradient = i >= training.forward_nodes;
    }
    for (ValueId id : node.inputs) {
      if (id != kNoValue) read(id, place);
    }
  }
  for (const ParameterGradient& g : training.gradients) {
    read(g.gradient, flow[g.parameter.value()].first_read);
  }
  return flow;
}

}  // namespace pipedream
