// CutStages of training_graph.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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
  for (int i = 0; i < training.forward_nodes; ++i) {
    if (stage_of[i] < 0 || stage_of[i] >= stages) {
      return InvalidArgument("node '{}' is put on stage {}, there are {} stages",
                             graph.node(NodeId(i)).name, stage_of[i], stages);
    }
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

// The stages whose forward nodes read `parameter`, ascending.
std::vector<int> ReadersOf(const TrainingGraph& training, const std::vector<int>& stage_of,
                           ValueId parameter) {
  std::vector<int> stages;
  for (NodeId reader : training.graph.consumers(parameter)) {
    if (reader.value() < training.forward_nodes) stages.push_back(stage_of[reader.value()]);
  }
  std::ranges::sort(stages);
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

absl::Status RefuseSharing(const TrainingGraph& training, const std::vector<int>& stage_of,
                           ValueId parameter) {
  const Graph& graph = training.graph;
  const std::vector<NodeId>& readers = graph.consumers(parameter);
  auto other = std::ranges::find_if(readers, [&](NodeId reader) {
    return stage_of[reader.value()] != stage_of[readers.front().value()];
  });
  return InvalidArgument(
      "parameter '{}' is read in two stages: by node '{}' on stage {} and by node '{}' on "
      "stage {}; keep its readers in one stage",
      graph.value(parameter).name, graph.node(readers.front()).name,
      stage_of[readers.front().value()], graph.node(*other).name, stage_of[other->value()]);
}

// Every holder of a shared parameter updates its copy, so it needs a gradient there.
absl::Status CheckShares(const TrainingGraph& training, ValueId parameter,
                         const std::vector<int>& stages) {
  std::vector<int> shares;
  for (const ParameterGradient& g : training.gradients) {
    if (g.parameter != parameter) continue;
    if (g.stage < 0) {
      return InvalidArgument("the gradient of '{}' is not summed per stage, but stages share it",
                             training.graph.value(parameter).name);
    }
    shares.push_back(g.stage);
  }
  for (int stage : stages) {
    if (shares.empty() || std::ranges::binary_search(shares, stage)) continue;
    return InvalidArgument(
        "parameter '{}' is read on stage {}, but gets its gradient on stage {} only; keep its "
        "readers in one stage",
        training.graph.value(parameter).name, stage, shares.front());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SharedParameter>> FindShared(const TrainingGraph& training,
                                                        const std::vector<int>& stage_of,
                                                        bool share_parameters) {
  std::vector<SharedParameter> shared;
  const std::vector<Value>& values = training.graph.values();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].kind != ValueKind::kParameter) continue;
    const ValueId id(static_cast<int32_t>(i));
    std::vector<int> stages = ReadersOf(training, stage_of, id);
    if (stages.size() < 2) continue;
    if (!share_parameters) return RefuseSharing(training, stage_of, id);
    PD_RETURN_IF_ERROR(CheckShares(training, id, stages));
    shared.push_back({id, std::move(stages)});
  }
  return shared;
}

absl::Status AssignNodes(const TrainingGraph& training, const std::vector<int>& places,
                         std::vector<StageGraph>& result) {
  for (int i = 0; i < training.graph.node_count(); ++i) {
    StageGraph& stage = result[places[i]];
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
  for (size_t s = 0; s < result.size(); ++s) {
    if (result[s].forward.empty()) return InvalidArgument("stage {} owns no node", s);
  }
  return absl::OkStatus();
}

absl::Status AssignMessages(const TrainingGraph& training, const std::vector<ValueFlow>& flow,
                            std::vector<StageGraph>& result) {
  using Messages = std::map<int, StageMessage>;  // by the other stage
  struct Ends {
    Messages received, sent, gradients_received, gradients_sent;
  };
  std::vector<Ends> ends(result.size());
  auto add = [](Messages& messages, int stage, ValueId id) {
    StageMessage& message = messages[stage];
    message.stage = stage;
    message.values.push_back(id);
  };
  for (size_t i = 0; i < flow.size(); ++i) {
    const ValueFlow& f = flow[i];
    const ValueId id(static_cast<int32_t>(i));
    if (f.made < 0) continue;
    for (int reader : f.read) {
      if (reader == f.made) continue;
      if ((reader < f.made) != f.gradient) {
        return Internal("'{}' is made on stage {} and read on stage {}",
                        training.graph.value(id).name, f.made, reader);
      }
      add(f.gradient ? ends[f.made].gradients_sent : ends[f.made].sent, reader, id);
      add(f.gradient ? ends[reader].gradients_received : ends[reader].received, f.made, id);
    }
  }
  auto list = [](Messages& messages) {
    std::vector<StageMessage> out;
    for (auto& [stage, message] : messages) out.push_back(std::move(message));
    return out;
  };
  for (size_t s = 0; s < ends.size(); ++s) {
    result[s].received = list(ends[s].received);
    result[s].sent = list(ends[s].sent);
    result[s].gradients_received = list(ends[s].gradients_received);
    result[s].gradients_sent = list(ends[s].gradients_sent);
  }
  return absl::OkStatus();
}

// What is sent must be made by the input-gradient nodes, even where it only leads to a parameter of
// an earlier stage.
void CompleteInputGradient(const TrainingGraph& training, StageGraph& stage) {
  std::set<ValueId> wanted;
  for (const StageMessage& message : stage.gradients_sent)
    wanted.insert(message.values.begin(), message.values.end());
  std::vector<NodeId> rest;
  for (size_t i = stage.weight_gradient.size(); i-- > 0;) {
    const NodeId id = stage.weight_gradient[i];
    const Node& node = training.graph.node(id);
    if (std::ranges::none_of(node.outputs, [&](ValueId v) { return wanted.contains(v); })) {
      rest.push_back(id);
      continue;
    }
    for (ValueId input : node.inputs) {
      if (input != kNoValue) wanted.insert(input);
    }
    stage.input_gradient.push_back(id);
  }
  std::ranges::sort(stage.input_gradient);
  std::ranges::reverse(rest);
  stage.weight_gradient = std::move(rest);
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

void AssignGradients(const TrainingGraph& training, const std::vector<SharedParameter>& shared,
                     std::vector<StageGraph>& result) {
  for (size_t s = 0; s < result.size(); ++s) {
    StageGraph& stage = result[s];
    const int index = static_cast<int>(s);
    for (const ParameterGradient& g : training.gradients) {
      if (g.stage >= 0 ? g.stage == index
                       : std::ranges::binary_search(stage.parameters, g.parameter))
        stage.gradients.push_back(g);
    }
    for (const SharedParameter& parameter : shared) {
      if (std::ranges::binary_search(parameter.stages, index)) stage.shared.push_back(parameter);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<StageGraph>> CutStages(const TrainingGraph& training,
                                                  const std::vector<int>& stage_of, int stages,
                                                  bool share_parameters) {
  PD_RETURN_IF_ERROR(CheckStages(training, stage_of, stages));
  PD_ASSIGN_OR_RETURN(std::vector<SharedParameter> shared,
                      FindShared(training, stage_of, share_parameters));
  const std::vector<int> places = PlacesOf(training, stage_of, SumPlace::kProducer);
  const std::vector<ValueFlow> flow = FlowOf(training, places);
  std::vector<StageGraph> result(stages);
  PD_RETURN_IF_ERROR(AssignNodes(training, places, result));
  PD_RETURN_IF_ERROR(AssignMessages(training, flow, result));
  for (StageGraph& stage : result) {
    CompleteInputGradient(training, stage);
    AssignReads(training, flow, stage);
  }
  AssignGradients(training, shared, result);
  return result;
}

std::vector<StageEdge> EdgesOf(const std::vector<StageGraph>& stages) {
  std::vector<StageEdge> edges;
  for (size_t s = 0; s < stages.size(); ++s) {
    const int from = static_cast<int>(s);
    for (const StageMessage& message : stages[s].sent)
      edges.push_back({from, message.stage, false});
    for (const StageMessage& message : stages[s].gradients_sent)
      edges.push_back({from, message.stage, true});
  }
  std::ranges::sort(edges);
  return edges;
}

}  // namespace pipedream
