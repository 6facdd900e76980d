#include "common/graph/autodiff.h"

#include <fmt/format.h>

#include <algorithm>

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
  explicit Autodiff(GraphBuilder& builder)
      : builder_(builder),
        forward_nodes_(builder.graph().node_count()),
        reach_(FindReach(builder.graph())),
        gradient_(builder.graph().values().size(), kNoValue) {
    for (int i = 0; i < forward_nodes_; ++i) origin_.push_back(NodeId(i));
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
  absl::StatusOr<std::vector<ParameterGradient>> ParameterGradients();
  std::vector<Pass> Classify() const;

  GraphBuilder& builder_;
  const int forward_nodes_;
  const std::vector<Reach> reach_;  // of forward values
  std::vector<ValueId> gradient_;   // of forward values; kNoValue where nothing arrived yet
  std::vector<NodeId> origin_;
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
  if (outputs.ok()) origin_.push_back(origin);
  return outputs;
}

absl::Status Autodiff::Accumulate(NodeId origin, ValueId value, ValueId contribution) {
  if (graph().value(contribution).shape != graph().value(value).shape) {
    return Internal("the gradient of '{}' {} came out as {}", graph().value(value).name,
                    graph().value(value).shape.ToString(),
                    graph().value(contribution).shape.ToString());
  }
  ValueId& sum = gradient_[value.value()];
  if (sum == kNoValue) {
    sum = contribution;
    return absl::OkStatus();
  }
  PD_ASSIGN_OR_RETURN(std::vector<ValueId> outputs,
                      AddNode(origin, "Add", {sum, contribution}, {}));
  sum = outputs[0];
  return absl::OkStatus();
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
  std::vector<ValueId> taken;
  for (size_t i = 0; i < gradient_.size(); ++i) {
    ValueId parameter(static_cast<int32_t>(i));
    ValueId gradient = gradient_[i];
    if (graph().value(parameter).kind != ValueKind::kParameter || gradient == kNoValue) continue;
    NodeId producer = graph().value(gradient).producer;
    bool own = false;
    if (producer != kNoNode && std::find(taken.begin(), taken.end(), gradient) == taken.end()) {
      const Node& origin = graph().node(origin_[producer.value()]);
      own = std::find(origin.inputs.begin(), origin.inputs.end(), parameter) != origin.inputs.end();
    }
    if (!own) {
      NodeId reader = graph().consumers(parameter).front();
      PD_ASSIGN_OR_RETURN(std::vector<ValueId> copy,
                          AddNode(reader, "Scale", {gradient}, Attributes().Set("factor", 1.0)));
      gradient = copy[0];
    }
    taken.push_back(gradient);
    gradients.push_back({parameter, gradient});
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
  result.forward_nodes = forward_nodes_;
  return result;
}

}  // namespace

absl::StatusOr<TrainingGraph> AddGradients(GraphBuilder& builder, ValueId loss) {
  Autodiff autodiff(builder);
  PD_RETURN_IF_ERROR(autodiff.Run(loss));
  return autodiff.Finish();
}

}  // namespace pipedream
