#include "worker/engine/profile_sizes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/graph/cuts.h"
#include "worker/engine/memory_plan.h"

namespace pipedream {
namespace {

class SizeReader {
 public:
  SizeReader(const TrainingGraph& training, std::vector<NodeProfile>* nodes)
      : training_(training), graph_(training.graph), nodes_(*nodes) {
    nodes_.resize(training.forward_nodes);
    for (int n = 0; n < training.forward_nodes; ++n) {
      const Node& node = graph_.node(NodeId(n));
      nodes_[n].name = node.name;
      nodes_[n].op = node.op;
      for (ValueId output : node.outputs)
        if (output != kNoValue) nodes_[n].output_bytes += graph_.value(output).bytes();
    }
  }

  void ReadWorkspace(const CompiledProgram& program) {
    for (const CompiledStep& step : program.steps) {
      NodeProfile& node = OriginOf(step.node);
      node.workspace_bytes = std::max(node.workspace_bytes, static_cast<int64_t>(step.live_bytes));
    }
  }

  void ReadStored(const std::vector<StoredTensor>& tensors, int64_t NodeProfile::*bytes) {
    for (const StoredTensor& tensor : tensors) {
      const ValueId id = graph_.FindValue(tensor.name);
      OriginOf(graph_.consumers(id).front()).*bytes +=
          static_cast<int64_t>(AlignUp(tensor.spec.bytes));
    }
  }

  // `tensors` by value.
  void ReadSaved(const SavedTensor& saved, const std::map<ValueId, ProfileTensor*>& tensors) {
    std::set<int> keepers;
    ProfileTensor* tensor = nullptr;  // the first that is kept
    for (ValueId value : saved.values) {
      for (NodeId reader : graph_.consumers(value)) {
        if (reader.value() < training_.forward_nodes) continue;
        keepers.insert(training_.origin[reader.value()].value());
        if (auto it = tensors.find(value); tensor == nullptr && it != tensors.end())
          tensor = it->second;
      }
    }
    if (keepers.empty()) return;
    const auto bytes = static_cast<int64_t>(saved.bytes);
    if (keepers.size() == 1 || tensor == nullptr) {
      nodes_[*keepers.begin()].saved_bytes += bytes;
    } else {
      tensor->kept_by.assign(keepers.begin(), keepers.end());
      tensor->kept_bytes = bytes;
    }
  }

 private:
  NodeProfile& OriginOf(NodeId id) { return nodes_[training_.origin[id.value()].value()]; }

  const TrainingGraph& training_;
  const Graph& graph_;
  std::vector<NodeProfile>& nodes_;
};

}  // namespace

Profile SizesOf(const TrainingGraph& training, const CompiledStage& compiled,
                const StageLayout& layout) {
  Profile profile;
  profile.microbatch_size = compiled.samples;
  SizeReader reader(training, &profile.nodes);
  reader.ReadWorkspace(compiled.forward);
  reader.ReadWorkspace(compiled.backward);
  reader.ReadStored(layout.parameters, &NodeProfile::parameter_bytes);
  reader.ReadStored(layout.states, &NodeProfile::state_bytes);
  reader.ReadStored(layout.constants, &NodeProfile::constant_bytes);
  const std::vector<CrossingTensor> crossing = CrossingTensors(training);
  profile.tensors.resize(crossing.size());
  std::map<ValueId, ProfileTensor*> by_value;
  for (size_t i = 0; i < crossing.size(); ++i) {
    ProfileTensor& tensor = profile.tensors[i];
    tensor.early = {crossing[i].made};
    tensor.late = crossing[i].readers;
    tensor.bytes = training.graph.value(crossing[i].value).bytes();
    tensor.gradient = crossing[i].gradient;
    if (tensor.gradient) std::swap(tensor.early, tensor.late);
    by_value[crossing[i].value] = &tensor;
  }
  for (const SavedTensor& saved : compiled.saved) reader.ReadSaved(saved, by_value);
  profile.ties = TiedNodes(training);
  return profile;
}

int64_t BytesToProfile(const CompiledStage& compiled, const StageLayout& layout,
                       int optimizer_tensors) {
  size_t arena = 0;
  for (const CompiledProgram* program : {&compiled.forward, &compiled.backward})
    arena = std::max(arena, program->arena_bytes + AlignUp(program->scratch_bytes));
  return static_cast<int64_t>(
      (2 + static_cast<size_t>(optimizer_tensors)) * layout.parameter_bytes + layout.state_bytes +
      layout.constant_bytes + compiled.slot_bytes + arena);
}

}  // namespace pipedream
