#include "common/job/stage_flow.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/base/status.h"
#include "common/base/nearest_name.h"

namespace pipedream {

absl::StatusOr<TrainingGraph> BindTraining(const Model& model, const JobSpec& spec, int64_t batch,
                                           const std::vector<int>& stage_of) {
  BindOptions options{batch, GraphForm::kTraining, spec.train_patterns, spec.freeze_patterns};
  PD_ASSIGN_OR_RETURN(Graph forward, model.Bind(options));
  return MakeTrainingGraph(forward, spec.loss, stage_of);
}

absl::StatusOr<TrainingGraph> BindEvaluation(const Model& model, const JobSpec& spec,
                                             int64_t batch) {
  BindOptions options{batch, GraphForm::kInference, spec.train_patterns, spec.freeze_patterns};
  PD_ASSIGN_OR_RETURN(Graph forward, model.Bind(options));
  return MakeEvaluationGraph(forward, spec.loss);
}

absl::StatusOr<std::vector<NodeId>> CheckpointNodes(const JobSpec& spec,
                                                    const TrainingGraph& training) {
  std::set<NodeId> nodes;
  for (const std::string& pattern : spec.recompute.checkpoints) {
    bool found = false;
    std::vector<std::string> names;
    for (int n = 0; n < training.forward_nodes; ++n) {
      names.push_back(training.graph.node(NodeId(n)).name);
      if (names.back() != pattern && fnmatch(pattern.c_str(), names.back().c_str(), 0) != 0)
        continue;
      nodes.insert(NodeId(n));
      found = true;
    }
    if (found) continue;
    return InvalidArgument(
        "recompute: no node of the model is called '{}'; did you mean '{}'? It has {} nodes, from "
        "'{}' to '{}'",
        pattern, NearestName(pattern, names), names.size(), names.front(), names.back());
  }
  return std::vector<NodeId>(nodes.begin(), nodes.end());
}

std::vector<int> EvaluationStages(const TrainingGraph& training, const std::vector<int>& stage_of,
                                  const TrainingGraph& evaluation) {
  std::unordered_map<std::string, int> by_name;
  for (int n = 0; n < training.forward_nodes; ++n)
    by_name.emplace(training.graph.node(NodeId(n)).name, stage_of[n]);
  std::vector<int> out;
  for (int n = 0; n < evaluation.forward_nodes; ++n) {
    const Node& node = evaluation.graph.node(NodeId(n));
    int stage = 0;
    for (ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      NodeId producer = evaluation.graph.value(input).producer;
      if (producer != kNoNode) stage = std::max(stage, out[producer.value()]);
    }
    auto it = by_name.find(node.name);
    out.push_back(it == by_name.end() ? stage : it->second);
  }
  return out;
}

absl::Status SetStageFlow(const Model& model, const JobSpec& spec, const std::vector<int>& stage_of,
                          ScheduleShape* shape) {
  constexpr int64_t kBatch = 2;  // any; who sends to whom does not depend on it
  const int stages = shape->stages();
  PD_ASSIGN_OR_RETURN(TrainingGraph training, BindTraining(model, spec, kBatch, stage_of));
  PD_ASSIGN_OR_RETURN(std::vector<StageGraph> cut, CutStages(training, stage_of, stages, true));
  std::set<std::pair<int, int>> forward, backward;
  auto note = [&](const std::vector<StageGraph>& graphs) {
    for (const StageEdge& edge : EdgesOf(graphs)) {
      (edge.gradient ? backward : forward).emplace(edge.from, edge.to);
    }
  };
  note(cut);
  if (shape->evaluation_microbatches > 0) {
    PD_ASSIGN_OR_RETURN(TrainingGraph evaluation, BindEvaluation(model, spec, kBatch));
    PD_ASSIGN_OR_RETURN(
        std::vector<StageGraph> graphs,
        CutStages(evaluation, EvaluationStages(training, stage_of, evaluation), stages, true));
    note(graphs);
  }
  // A gradient may go where no value came from: an Add hands its own on.
  for (const auto& [from, to] : backward) forward.emplace(to, from);
  std::vector<ScheduleEdge> edges;
  for (const auto& [from, to] : forward) {
    edges.push_back({from, to, backward.contains({to, from})});
  }
  shape->edges.clear();
  if (edges != EdgesOf(*shape)) shape->edges = std::move(edges);
  std::set<int> tied;
  for (const StageGraph& stage : cut) {
    for (const SharedParameter& shared : stage.shared) {
      tied.insert(shared.stages.begin(), shared.stages.end());
    }
  }
  shape->tied_stages.assign(tied.begin(), tied.end());
  return absl::OkStatus();
}

}  // namespace pipedream
