#include "common/graph/value_flow.h"

#include <algorithm>

namespace pipedream {

std::vector<int> PlacesOf(const TrainingGraph& training, const std::vector<int>& place_of,
                          SumPlace sum_place) {
  const Graph& graph = training.graph;
  std::vector<int> places(graph.node_count());
  for (int i = 0; i < graph.node_count(); ++i) {
    int& place = places[i];
    place = place_of[training.origin[i].value()];
    if (std::ranges::binary_search(training.state_updates, NodeId(i))) {
      for (ValueId id : graph.node(NodeId(i)).inputs) {
        const NodeId maker = id == kNoValue ? kNoNode : graph.value(id).producer;
        if (maker != kNoNode) place = places[maker.value()];
      }
    }
    const ValueId summed = training.sum_of[i];
    if (summed == kNoValue) continue;
    const NodeId producer = graph.value(summed).producer;
    if (producer == kNoNode) continue;
    int least = -1, most = -1;
    for (ValueId term : graph.node(NodeId(i)).inputs) {
      const NodeId maker = graph.value(term).producer;
      if (maker == kNoNode) continue;  // a constant is everywhere
      const int made = places[maker.value()];
      least = least < 0 ? made : std::min(least, made);
      most = std::max(most, made);
    }
    if (least == most && least >= 0) {
      place = least;
    } else {
      place = sum_place == SumPlace::kFirst && least >= 0 ? least : place_of[producer.value()];
    }
  }
  return places;
}

std::vector<ValueFlow> FlowOf(const TrainingGraph& training, const std::vector<int>& places) {
  const Graph& graph = training.graph;
  std::vector<ValueFlow> flow(graph.values().size());
  for (int i = 0; i < graph.node_count(); ++i) {
    for (ValueId id : graph.node(NodeId(i)).outputs) {
      if (id == kNoValue) continue;
      flow[id.value()].made = places[i];
      flow[id.value()].gradient = i >= training.forward_nodes;
    }
  }
  // Is `term` what other readers of the parameter gave?
  auto others_share = [&](ValueId parameter, ValueId term) {
    const NodeId maker = graph.value(term).producer;
    if (maker == kNoNode) return false;
    const std::vector<ValueId>& inputs = graph.node(training.origin[maker.value()]).inputs;
    return std::ranges::find(inputs, parameter) != inputs.end();
  };
  for (int i = 0; i < graph.node_count(); ++i) {
    const ValueId summed = training.sum_of[i];
    const bool parameter_sum =
        summed != kNoValue && graph.value(summed).kind == ValueKind::kParameter;
    for (ValueId id : graph.node(NodeId(i)).inputs) {
      if (id == kNoValue) continue;
      ValueFlow& f = flow[id.value()];
      if (parameter_sum && f.made != places[i] && others_share(summed, id)) continue;
      f.read.push_back(places[i]);
    }
  }
  for (const ParameterGradient& g : training.gradients) {
    ValueFlow& f = flow[g.gradient.value()];
    f.read.push_back(f.made);
  }
  for (ValueFlow& f : flow) {
    std::ranges::sort(f.read);
    f.read.erase(std::unique(f.read.begin(), f.read.end()), f.read.end());
  }
  return flow;
}

}  // namespace pipedream
