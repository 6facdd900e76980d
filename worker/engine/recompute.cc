#include "worker/engine/recompute.h"

#include <algorithm>

namespace pipedream {

BackwardPlan::BackwardPlan(const TrainingGraph& training, const StageGraph& stage,
                           const Recompute& recompute)
    : training_(training),
      graph_(training.graph),
      enabled_(recompute.enabled),
      own_(stage.forward.begin(), stage.forward.end()) {
  for (NodeId id : recompute.checkpoints)
    if (own_.contains(id)) checkpoints_.push_back(id);
  std::ranges::sort(checkpoints_);
  kept_.insert(checkpoints_.begin(), checkpoints_.end());
  for (NodeId id : stage.forward) {
    if (std::ranges::any_of(graph_.node(id).inputs, [&](ValueId v) {
          return v != kNoValue && graph_.value(v).kind == ValueKind::kState;
        }))
      kept_.insert(id);
  }
  for (NodeId id : stage.forward) {
    const auto& inputs = graph_.node(id).inputs;
    if (!kept_.contains(id) && !inputs.empty() &&
        std::ranges::all_of(inputs, [&](ValueId v) { return FollowsFromWeights(v); }))
      derived_.insert(id);
  }
}

bool BackwardPlan::FollowsFromWeights(ValueId value) const {
  if (value == kNoValue) return true;
  const Value& v = graph_.value(value);
  if (v.kind == ValueKind::kComputed) return derived_.contains(v.producer);
  return v.kind == ValueKind::kParameter || v.kind == ValueKind::kConstant;
}

NodeId BackwardPlan::MakerOf(ValueId value) const {
  if (value == kNoValue) return kNoNode;
  const NodeId maker = graph_.value(value).producer;
  if (derived_.contains(maker)) return maker;
  if (!enabled_) return kNoNode;
  return own_.contains(maker) && !kept_.contains(maker) ? maker : kNoNode;
}

int BackwardPlan::SegmentOf(NodeId node) const {
  return static_cast<int>(std::ranges::lower_bound(checkpoints_, node) - checkpoints_.begin());
}

std::set<NodeId> BackwardPlan::AgainFor(const std::vector<NodeId>& gradient_nodes) const {
  std::set<NodeId> again;
  std::vector<NodeId> open = gradient_nodes;
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    for (ValueId input : graph_.node(node).inputs) {
      const NodeId maker = MakerOf(input);
      if (maker != kNoNode && again.insert(maker).second) open.push_back(maker);
    }
  }
  return again;
}

std::vector<NodeId> BackwardPlan::Order(std::vector<NodeId> gradient_nodes) const {
  std::ranges::sort(gradient_nodes);
  const std::set<NodeId> again = AgainFor(gradient_nodes);
  std::set<NodeId> done;
  std::vector<NodeId> order;
  // Runs `last` after what it needs of earlier segments.
  auto run = [&](NodeId last) {
    std::vector<NodeId> open = {last};
    while (!open.empty()) {
      const NodeId node = open.back();
      const size_t waiting = open.size();
      for (ValueId input : graph_.node(node).inputs) {
        const NodeId maker = MakerOf(input);
        if (maker != kNoNode && !done.contains(maker)) open.push_back(maker);
      }
      if (open.size() > waiting) continue;
      open.pop_back();
      if (done.insert(node).second) order.push_back(node);
    }
  };
  for (NodeId gradient : gradient_nodes) {
    for (ValueId input : graph_.node(gradient).inputs) {
      const NodeId maker = MakerOf(input);
      if (maker == kNoNode || done.contains(maker)) continue;
      if (derived_.contains(maker)) {
        run(maker);
        continue;
      }
      const int segment = SegmentOf(maker);
      for (NodeId node : again)
        if (SegmentOf(node) == segment && !done.contains(node)) run(node);
    }
    order.push_back(gradient);
  }
  return order;
}

std::set<ValueId> BackwardPlan::Kept(const std::vector<NodeId>& gradient_nodes) const {
  std::set<ValueId> kept;
  for (NodeId node : Order(gradient_nodes)) {
    for (ValueId input : graph_.node(node).inputs) {
      if (input == kNoValue || MakerOf(input) != kNoNode) continue;
      const Value& value = graph_.value(input);
      const bool forward =
          value.kind == ValueKind::kInput ||
          (value.kind == ValueKind::kComputed && value.producer.value() < training_.forward_nodes);
      if (forward) kept.insert(input);
    }
  }
  return kept;
}

}  // namespace pipedream
