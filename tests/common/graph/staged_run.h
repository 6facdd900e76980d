// Runs a cut training graph stage by stage on the reference operators, and ways to cut.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/graph/training_graph.h"
#include "tests/common/graph/test_graphs.h"
#include "tests/support/reference_ops.h"

namespace pipedream {

inline std::vector<std::string> Names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (ValueId id : ids) names.push_back(graph.value(id).name);
  return names;
}

// Stage of every forward node: `first[s]` is the name of the first node of stage s + 1.
inline std::vector<int> SplitAt(const TrainingGraph& training,
                                const std::vector<std::string>& first) {
  std::vector<int> stage_of;
  int stage = 0;
  for (int i = 0; i < training.forward_nodes; ++i) {
    if (stage < static_cast<int>(first.size()) &&
        training.graph.node(NodeId(i)).name == first[stage]) {
      ++stage;
    }
    stage_of.push_back(stage);
  }
  EXPECT_EQ(stage, static_cast<int>(first.size()));
  return stage_of;
}

// Any stages that edges allow, in whatever order the nodes come; every stage owns a node.
inline std::vector<int> RandomStages(const TrainingGraph& training, int stages,
                                     std::mt19937& random) {
  const Graph& graph = training.graph;
  while (true) {
    std::vector<int> stage_of;
    std::vector<bool> owns(stages, false);
    for (int i = 0; i < training.forward_nodes; ++i) {
      int least = 0;
      for (ValueId id : graph.node(NodeId(i)).inputs) {
        NodeId producer = id == kNoValue ? kNoNode : graph.value(id).producer;
        if (producer != kNoNode) least = std::max(least, stage_of[producer.value()]);
      }
      // Small steps, or the last stage would take nearly all.
      const int step = random() % 3 == 0 ? static_cast<int>(random() % stages) : 0;
      stage_of.push_back(std::min(least + step, stages - 1));
      // A node that only updates statistics follows those that make them.
      if (!graph.node(NodeId(i)).outputs.empty()) owns[stage_of.back()] = true;
    }
    if (std::ranges::count(owns, false) == 0) return stage_of;
  }
}

// Runs stages one after the other, each with what its lists say and nothing else.
class StagedRun {
 public:
  using Store = std::map<ValueId, ReferenceTensor>;

  StagedRun(const TrainingGraph& training, const std::vector<StageGraph>& stages, Store given)
      : training_(training), stages_(stages), given_(std::move(given)), forward_(stages.size()) {}

  // Per stage the gradients of its parameters.
  std::vector<Store> Run() {
    std::map<std::pair<int, int>, Store> messages;  // (from, to)
    auto receive = [&](Store& store, int stage, const std::vector<StageMessage>& received) {
      for (const StageMessage& m : received) Take(store, m.values, messages[{m.stage, stage}]);
    };
    auto send = [&](const Store& store, int stage, const std::vector<StageMessage>& sent) {
      for (const StageMessage& m : sent) Take(messages[{stage, m.stage}], m.values, store);
    };
    const int count = static_cast<int>(stages_.size());
    for (int s = 0; s < count; ++s) {
      const StageGraph& stage = stages_[s];
      Store store = Fixed(stage);
      Take(store, stage.inputs, given_);
      receive(store, s, stage.received);
      RunNodes(stage.forward, store);
      send(store, s, stage.sent);
      Take(forward_[s], stage.saved, store);
    }
    messages.clear();
    std::vector<Store> gradients(count);
    for (int s = count; s-- > 0;) {
      const StageGraph& stage = stages_[s];
      Store store = Fixed(stage);
      store.insert(forward_[s].begin(), forward_[s].end());
      receive(store, s, stage.gradients_received);
      RunNodes(stage.input_gradient, store);
      send(store, s, stage.gradients_sent);  // before the weight gradients
      RunNodes(stage.weight_gradient, store);
      for (const ParameterGradient& g : stage.gradients) Take(gradients[s], {g.gradient}, store);
    }
    return gradients;
  }

 private:
  Store Fixed(const StageGraph& stage) {
    Store store;
    Take(store, stage.parameters, given_);
    Take(store, stage.states, given_);
    for (size_t i = 0; i < training_.graph.values().size(); ++i) {
      ValueId id(static_cast<int32_t>(i));
      if (training_.graph.value(id).kind == ValueKind::kConstant) Take(store, {id}, given_);
    }
    return store;
  }

  void Take(Store& to, const std::vector<ValueId>& ids, const Store& from) {
    for (ValueId id : ids) {
      auto it = from.find(id);
      ASSERT_NE(it, from.end()) << training_.graph.value(id).name << " is not at hand";
      to.emplace(*it);
    }
  }

  void RunNodes(const std::vector<NodeId>& nodes, Store& store) {
    for (NodeId id : nodes) {
      const Node& node = training_.graph.node(id);
      std::vector<ReferenceTensor> inputs;
      for (ValueId input : node.inputs) {
        ASSERT_EQ(store.count(input), 1u)
            << node.name << " reads " << training_.graph.value(input).name;
        inputs.push_back(store[input]);
      }
      auto outputs = RunReference(training_.graph, node, inputs);
      ASSERT_OK(outputs);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != kNoValue) store[node.outputs[i]] = (*outputs)[i];
      }
    }
  }

  const TrainingGraph& training_;
  const std::vector<StageGraph>& stages_;
  const Store given_;
  std::vector<Store> forward_;
};

// What a reference run of the whole graph says of the values that are not computed.
inline StagedRun::Store GivenOf(const TrainingGraph& training,
                                const std::vector<ReferenceTensor>& whole) {
  StagedRun::Store given;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (training.graph.values()[i].kind == ValueKind::kComputed) continue;
    given[ValueId(static_cast<int32_t>(i))] = whole[i];
  }
  return given;
}

inline ReferenceTensor RandomReference(int64_t elements, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  ReferenceTensor out(elements);
  for (double& v : out) v = uniform(random);
  return out;
}

}  // namespace pipedream
