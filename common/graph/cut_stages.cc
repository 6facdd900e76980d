// CutStages of training_graph.h.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/graph/training_graph.h"
#include "common/graph/value_flow.h"

namespace pipedream {
namespace {

absl::Status CheckStages(const TrainingGraph& training, const std::vector<int>& stage_of,
                         int stages) {
  if (static_cast<int>(stage_of.size()) != training.forward_nodes) {
    return InvalidArgument("stages are given for {} nodes, the graph has {} forward nodes",
                           stage_of.size(), training.forward_nodes);
  }
  const Graph& graph = training.graph;
  std::vector<bool> owns(std::max(stages, 0), false);
  for (int i = 0; i < training.forward_nodes; ++i) {
    if (stage_of[i] < 0 || stage_of[i] >= stages) {
      return InvalidArgument("node '{}' is put on stage {}, there are {} stages",
                             graph.node(NodeId(i)).name, stage_of[i], stages);
    }
    owns[stage_of[i]] = true;
  }
  for (int s = 0; s < stages; ++s) {
    if (!owns[s]) return InvalidArgument("stage {} owns no node", s);
  }
  for (int i = 0; i < training.forward_nodes; ++i) {
    for (ValueId id : graph.node(NodeId(i)).inputs) {
      NodeId producer = id == kNoValue ? kNoNode : graph.value(id).producer;
      if (producer == kNoNode || stage_of[producer.value()] <= stage_of[i]) continue;
      return InvalidArgument(
          "'{}' runs backward, from node '{}' on stage {} to node '{}' on stage {}",
          graph.value(id).name, graph.node(producer).name, stage_of[producer.value()],
          graph.node(NodeId(i)).name, stage_of[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckParameters(const TrainingGraph& training, const std::vector<int>& stage_of) {
  const Graph& graph = training.graph;
  for (size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.values()[i].kind != ValueKind::kParameter) continue;
    NodeId first = kNoNode;
    for (NodeId reader : graph.consumers(ValueId(static_cast<int32_t>(i)))) {
      if (reader.value() >= training.forward_nodes) break;
      if (first == kNoNode) first = reader;
      if (stage_of[reader.value()] == stage_of[first.value()]) continue;
      return InvalidArgument(
          "parameter '{}' is read in two stages: by node '{}' on stage {} and by node '{}' on "
          "stage {}; keep its readers in one stage",
          graph.values()[i].name, graph.node(first).name, stage_of[first.value()],
          graph.node(reader).name, stage_of[reader.value()]);
    }
  }
  return absl::OkStatus();
}

void AssignNodes(const TrainingGraph& training, const std::vector<int>& stage_of,
                 std::vector<StageGraph>& result) {
  for (int i = 0; i < training.graph.node_count(); ++i) {
    StageGraph& stage = result[stage_of[training.origin[i].value()]];
    switch (training.pass[i]) {
      case Pass::kForward:
        stage.forward.push_back(NodeId(i));
        break;
      case Pass::kInputGradient:
        stage.input_gradient.push_back(NodeId(i));
        break;
      case Pass::kWeightGradient:
        stage.weight_gradient.push_back(NodeId(i));
        break;
    }
  }
}

// Every boundary between where a value is made and where it is read last is crossed: a stage in
// between relays.
absl::Status AssignTransfers(const TrainingGraph& training, const std::vector<ValueFlow>& flow,
                             std::vector<StageGraph>& result) {
  for (size_t i = 0; i < flow.size(); ++i) {
    const ValueFlow& f = flow[i];
    ValueId id(static_cast<int32_t>(i));
    if (f.made < 0 || f.last_read < 0) continue;
    if (f.gradient ? f.last_read > f.made : f.first_read < f.made) {
      return Internal("'{}' is made on stage {} and read on stage {}",
                      training.graph.value(id).name, f.made,
                      f.gradient ? f.last_read : f.first_read);
    }
    for (int s = f.made; s < f.last_read; ++s) {
      result[s].sent.push_back(id);
      result[s + 1].received.push_back(id);
    }
    for (int s = f.made; f.gradient && s > f.first_read; --s) {
      result[s].gradients_sent.push_back(id);
      result[s - 1].gradients_received.push_back(id);
    }
  }
  return absl::OkStatus();
}

// What the nodes of one stage read from outside, and what its backward reads of its forward.
void AssignReads(const TrainingGraph& training, const std::vector<ValueFlow>& flow,
                 StageGraph& stage) {
  auto add = [&](NodeId node, bool backward) {
    for (ValueId id : training.graph.node(node).inputs) {
      if (id == kNoValue) continue;
      ValueKind kind = training.graph.value(id).kind;
      if (kind == ValueKind::kInput) stage.inputs.push_back(id);
      if (kind == ValueKind::kParameter) stage.parameters.push_back(id);
      if (kind == ValueKind::kState) stage.states.push_back(id);
      bool forward_value =
          kind == ValueKind::kInput || (kind == ValueKind::kComputed && !flow[id.value()].gradient);
      if (backward && forward_value) stage.saved.push_back(id);
    }
  };
  for (NodeId node : stage.forward) add(node, false);
  for (NodeId node : stage.input_gradient) add(node, true);
  for (NodeId node : stage.weight_gradient) add(node, true);
  for (std::vector<ValueId>* ids :
       {&stage.inputs, &stage.parameters, &stage.states, &stage.saved}) {
    std::sort(ids->begin(), ids->end());
    ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
  }
}

}  // namespace

absl::StatusOr<std::vector<StageGraph>> CutStages(const TrainingGraph& training,
                                                  const std::vector<int>& stage_of, int stages) {
  PD_RETURN_IF_ERROR(CheckStages(training, stage_of, stages));
  PD_RETURN_IF_ERROR(CheckParameters(training, stage_of));
  std::vector<ValueFlow> flow = FlowOf(training, stage_of);
  std::vector<StageGraph> result(stages);
  AssignNodes(training, stage_of, result);
  PD_RETURN_IF_ERROR(AssignTransfers(training, flow, result));
  for (StageGraph& stage : result) AssignReads(training, flow, stage);
  return result;
}

}  // namespace pipedream
