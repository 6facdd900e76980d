#include "common/graph/autodiff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/graph/op_def.h"

namespace pipedream {
namespace {

// What is known of a forward value before any gradient is made.
struct Reach {
  bool trains = false;      // some parameter leads to it: it wants a gradient
  bool activation = false;  // some input leads to it: not a function of parameters alone
};

std::vector<Reach> FindReach(const Graph& graph) {
  std::vector<Reach> reach(graph.values().size());
  for (size_t i = 0; i < reach.size(); ++i) {
    const Value& value = graph.values()[i];
    reach[i].trains = value.kind == ValueKind::kParameter && IsFloat(value.dtype);
    reach[i].activation = value.kind == ValueKind::kInput;
  }
  for (const Node& node : graph.nodes()) {
    Reach joined;
    for (ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      joined.trains |= reach[id.value()].trains;
      joined.activation |= reach[id.value()].activation;
    }
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      reach[id.value()] = joined;
      reach[id.value()].trains &= IsFloat(graph.value(id).dtype);
    }
  }
  return reach;
}

class Autodiff {
 public:
  Autodiff(GraphBuilder& builder, const std::vector<int>& stage_of)
      : builder_(builder),
        stage_of_(stage_of),
        forward_nodes_(builder.graph().node_count()),
        reach_(FindReach(builder.graph())),
        gradient_(builder.graph().values().size(), kNoValue) {
    for (int i = 0; i < forward_nodes_; ++i) origin_.push_back(NodeId(i));
    sum_of_.assign(forward_nodes_, kNoValue);
  }

  absl::Status Run(ValueId loss);
  absl::StatusOr<TrainingGraph> Finish();

 private:
  class Context;

  const Graph& graph() const { return builder_.graph(); }
  bool Trains(ValueId id) const { return id != kNoValue && reach_[id.value()].trains; }
  ValueId GradientOf(ValueId id) const { return id == kNoValue ? kNoValue : gradient_[id.value()]; }
  absl::StatusOr<std::vector<ValueId>> AddNode(NodeId origin, std::string_view op,
                                               std::vector<ValueId> inputs, Attributes attributes);
  absl::Status Differentiate(NodeId id);
  absl::Status Accumulate(NodeId origin, ValueId value, ValueId contribution);
  bool IsShared(ValueId parameter) const;
  absl::StatusOr<std::vector<ParameterGradient>> ParameterGradients();
  std::vector<Pass> Classify() const;

  GraphBuilder& builder_;
  const std::vector<int>& stage_of_;  // of forward nodes; empty: nothing is shared
  const int forward_nodes_;
  const std::vector<Reach> reach_;  // of forward values
  std::vector<ValueId> gradient_;   // of forward values; kNoValue where nothing arrived yet
  std::map<std::pair<ValueId, int>, ValueId> shares_;  // (shared parameter, stage) -> gradient
  std::vector<NodeId> origin_;
  std::vector<ValueId> sum_of_;
};

// Collects what the rule of one node says.
class Autodiff::Context : public GradientContext {
 public:
  Context(Autodiff& autodiff, NodeId id)
      : autodiff_(autodiff),
        id_(id),
        node_(autodiff.graph().node(id)),
        contributions_(node_.inputs.size(), kNoValue) {}

  const Node& node() const override { return node_; }
  const Graph& graph() const override { return autodiff_.graph(); }
  ValueId output_gradient(int index) const override {
    return autodiff_.GradientOf(node_.outputs[index]);
  }
  bool wants(int index) const override {
    return index < static_cast<int>(node_.inputs.size()) && autodiff_.Trains(node_.inputs[index]);
  }
  absl::StatusOr<std::vector<ValueId>> Add(std::string_view op, std::vector<ValueId> inputs,
                                           Attributes attributes) override {
    return autodiff_.AddNode(id_, op, std::move(inputs), std::move(attributes));
  }
  void SetInputGradient(int index, ValueId gradient) override { contributions_[index] = gradient; }

  const std::vector<ValueId>& contributions() const { return contributions_; }

 private:
  Autodiff& autodiff_;
  const NodeId id_;
  const Node node_;  // a copy: adding nodes moves the graph's own
  std::vector<ValueId> contributions_;
};

absl::StatusOr<std::vector<ValueId>> Autodiff::AddNode(NodeId origin, std::string_view op,
                                                       std::vector<ValueId> inputs,
                                                       Attributes attributes) {
  std::string name = graph().node(origin).name + "/grad";
  auto outputs = builder_.AddNode(std::move(name), op, std::move(inputs), std::move(attributes));
  if (outputs.ok()) {
    origin_.push_back(origin);
    sum_of_.push_back(kNoValue);
  }
  return outputs;
}

absl::Status Autodiff::Accumulate(NodeId origin, ValueId value, ValueId contribution) {
  if (graph().value(contribution).shape != graph().value(value).shape) {
    return Internal("the gradient of '{}' {} came out as {}", graph().value(value).name,
                    graph().value(value).shape.ToString(),
                    graph().value(contribution).shape.ToString());
  }
  ValueId& sum =
      IsShared(value)
          ? shares_.try_emplace({value, stage_of_[origin.value()]}, kNoValue).first->second
          : gradient_[value.value()];
  if (sum == kNoValue) {
    sum = contribution;
    return absl::OkStatus();
  }
  PD_ASSIGN_OR_RETURN(std::vector<ValueId> outputs,
                      AddNode(origin, "Add", {sum, contribution}, {}));
  sum_of_.back() = value;
  sum = outputs[0];
  return absl::OkStatus();
}

bool Autodiff::IsShared(ValueId parameter) const {
  if (stage_of_.empty() || graph().value(parameter).kind != ValueKind::kParameter) return false;
  const int first = stage_of_[graph().consumers(parameter).front().value()];
  return std::ranges::any_of(graph().consumers(parameter), [&](NodeId reader) {
    return reader.value() < forward_nodes_ && stage_of_[reader.value()] != first;
  });
}

absl::Status Autodiff::Differentiate(NodeId id) {
  Context context(*this, id);
  const Node& node = context.node();
  bool arrives = std::any_of(node.outputs.begin(), node.outputs.end(),
                             [&](ValueId v) { return GradientOf(v) != kNoValue; });
  bool wanted =
      std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return Trains(v); });
  if (!arrives || !wanted) return absl::OkStatus();
  const OpDef* def = FindOpDef(node.op);
  std::string where = fmt::format("node '{}' ({})", node.name, node.op);
  if (def->gradient == nullptr) {
    return InvalidArgument(
        "{} has no gradient, but lies between a parameter and the loss; freeze the parameters "
        "before it",
        where);
  }
  if (absl::Status status = def->gradient(context); !status.ok()) return Annotate(status, where);
  // From the last input to the first, as over nodes from the last to the first.
  for (size_t i = node.inputs.size(); i-- > 0;) {
    if (context.contributions()[i] == kNoValue || !Trains(node.inputs[i])) continue;
    PD_RETURN_IF_ERROR(Accumulate(id, node.inputs[i], context.contributions()[i]));
  }
  return absl::OkStatus();
}

absl::Status Autodiff::Run(ValueId loss) {
  bool any = std::any_of(graph().values().begin(), graph().values().end(),
                         [](const Value& v) { return v.kind == ValueKind::kParameter; });
  if (!any) return InvalidArgument("the model has no parameter to train");
  if (!stage_of_.empty() && static_cast<int>(stage_of_.size()) != forward_nodes_) {
    return InvalidArgument("stages are given for {} nodes, the graph has {} forward nodes",
                           stage_of_.size(), forward_nodes_);
  }
  if (!Trains(loss) || graph().value(loss).kind != ValueKind::kComputed) {
    return InvalidArgument("the loss is computed from no parameter, so nothing would train");
  }
  ValueId seed = builder_.AddConstant("dloss", Tensor::FromVector<float>(Shape(), {1.0f}));
  gradient_[loss.value()] = seed;
  for (int i = forward_nodes_ - 1; i >= 0; --i) PD_RETURN_IF_ERROR(Differentiate(NodeId(i)));
  return absl::OkStatus();
}

// A parameter's gradient belongs to it alone and is made where the parameter is read: one that was
// only passed on (by Add, from a later node) is copied.
absl::StatusOr<std::vector<ParameterGradient>> Autodiff::ParameterGradients() {
  std::vector<ParameterGradient> gradients;
  for (size_t i = 0; i < gradient_.size(); ++i) {
    ValueId parameter(static_cast<int32_t>(i));
    if (graph().value(parameter).kind != ValueKind::kParameter) continue;
    if (gradient_[i] != kNoValue) gradients.push_back({parameter, gradient_[i]});
    for (auto it = shares_.lower_bound({parameter, 0});
         it != shares_.end() && it->first.first == parameter; ++it) {
      gradients.push_back({parameter, it->second, it->first.second});
    }
  }
  std::set<ValueId> taken;
  for (ParameterGradient& g : gradients) {
    auto reads = [&](NodeId node) {
      if (g.stage >= 0 && stage_of_[node.value()] != g.stage) return false;
      const std::vector<ValueId>& inputs = graph().node(node).inputs;
      return std::ranges::find(inputs, g.parameter) != inputs.end();
    };
    NodeId producer = graph().value(g.gradient).producer;
    if (producer == kNoNode || !reads(origin_[producer.value()]) || taken.contains(g.gradient)) {
      NodeId reader = *std::ranges::find_if(graph().consumers(g.parameter), reads);
      PD_ASSIGN_OR_RETURN(std::vector<ValueId> copy,
                          AddNode(reader, "Scale", {g.gradient}, Attributes().Set("factor", 1.0)));
      g.gradient = copy[0];
    }
    taken.insert(g.gradient);
  }
  return gradients;
}

std::vector<Pass> Autodiff::Classify() const {
  std::vector<Pass> pass(graph().node_count(), Pass::kWeightGradient);
  std::fill_n(pass.begin(), forward_nodes_, Pass::kForward);
  auto mark = [&](ValueId id) {
    if (id == kNoValue) return;
    NodeId producer = graph().value(id).producer;
    if (producer.value() >= forward_nodes_) pass[producer.value()] = Pass::kInputGradient;
  };
  for (size_t i = 0; i < gradient_.size(); ++i) {
    const Value& value = graph().values()[i];
    if (value.kind == ValueKind::kComputed && reach_[i].activation) mark(gradient_[i]);
  }
  for (int i = graph().node_count() - 1; i >= forward_nodes_; --i) {
    if (pass[i] != Pass::kInputGradient) continue;
    for (ValueId input : graph().node(NodeId(i)).inputs) mark(input);
  }
  return pass;
}

absl::StatusOr<TrainingGraph> Autodiff::Finish() {
  TrainingGraph result;
  PD_ASSIGN_OR_RETURN(result.gradients, ParameterGradients());
  result.pass = Classify();
  result.origin = origin_;
  result.sum_of = sum_of_;
  result.forward_nodes = forward_nodes_;
  return result;
}

}  // namespace

absl::StatusOr<TrainingGraph> AddGradients(GraphBuilder& builder, ValueId loss,
                                           const std::vector<int>& stage_of) {
  Autodiff autodiff(builder, stage_of);
  PD_RETURN_IF_ERROR(autodiff.Run(loss));
  return autodiff.Finish();
}

}  // namespace pipedream
