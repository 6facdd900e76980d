#include "common/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/base/status.h"
#include "common/graph/op_def.h"

namespace pipedream {
namespace {

template <typename Map>
std::string FreeName(const Map& taken, std::string wanted) {
  if (taken.find(wanted) == taken.end()) return wanted;
  for (int suffix = 1;; ++suffix) {
    std::string name = fmt::format("{}_{}", wanted, suffix);
    if (taken.find(name) == taken.end()) return name;
  }
}

std::string Describe(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string out;
  for (ValueId id : ids) {
    if (!out.empty()) out += ", ";
    if (id == kNoValue) {
      out += '-';
      continue;
    }
    const Value& value = graph.value(id);
    out += value.name + value.shape.ToString();
    if (value.dtype != DataType::kFloat32) out += fmt::format(":{}", ToString(value.dtype));
  }
  return out;
}

}  // namespace

ValueId Graph::FindValue(std::string_view name) const {
  auto it = values_by_name_.find(name);
  return it == values_by_name_.end() ? kNoValue : it->second;
}

std::string Graph::ToString() const {
  std::string out;
  for (int i = 0; i < node_count(); ++i) {
    const Node& node = nodes_[i];
    out += fmt::format("{} {} {} ({}) -> {}", i, node.op, node.name, Describe(*this, node.inputs),
                       Describe(*this, node.outputs));
    if (!node.attributes.values().empty()) out += " {" + node.attributes.ToString() + "}";
    out += '\n';
  }
  return out;
}

GraphBuilder::GraphBuilder(const Graph& graph) : graph_(graph) {
  for (int i = 0; i < graph_.node_count(); ++i) {
    nodes_by_name_.emplace(graph_.nodes_[i].name, NodeId(i));
  }
}

ValueId GraphBuilder::AddValue(Value value) {
  ValueId id(static_cast<int32_t>(graph_.values_.size()));
  value.name = FreeName(graph_.values_by_name_, std::move(value.name));
  graph_.values_by_name_.emplace(value.name, id);
  graph_.values_.push_back(std::move(value));
  graph_.consumers_.emplace_back();
  return id;
}

std::string GraphBuilder::UniqueNodeName(std::string wanted) {
  std::string name = FreeName(nodes_by_name_, std::move(wanted));
  nodes_by_name_.emplace(name, NodeId(graph_.node_count()));
  return name;
}

ValueId GraphBuilder::AddInput(std::string name, DataType dtype, Shape shape) {
  Value value;
  value.name = std::move(name);
  value.dtype = dtype;
  value.shape = std::move(shape);
  value.kind = ValueKind::kInput;
  ValueId id = AddValue(std::move(value));
  graph_.inputs_.push_back(id);
  return id;
}

namespace {

Value Stored(std::string name, Tensor data, ValueKind kind) {
  Value value;
  value.name = std::move(name);
  value.dtype = data.dtype();
  value.shape = data.shape();
  value.kind = kind;
  value.data = std::move(data);
  return value;
}

}  // namespace

ValueId GraphBuilder::AddParameter(std::string name, Tensor initial) {
  return AddValue(Stored(std::move(name), std::move(initial), ValueKind::kParameter));
}

ValueId GraphBuilder::AddState(std::string name, Tensor initial) {
  return AddValue(Stored(std::move(name), std::move(initial), ValueKind::kState));
}

ValueId GraphBuilder::AddConstant(std::string name, Tensor value) {
  return AddValue(Stored(std::move(name), std::move(value), ValueKind::kConstant));
}

absl::StatusOr<std::vector<ValueId>> GraphBuilder::AddNode(std::string name, std::string_view op,
                                                           std::vector<ValueId> inputs,
                                                           Attributes attributes,
                                                           std::vector<std::string> output_names) {
  if (name.empty()) {
    name = output_names.empty() || output_names[0].empty() ? std::string(op) : output_names[0];
  }
  const OpDef* def = FindOpDef(op);
  if (def == nullptr) return InvalidArgument("node '{}': unknown operator '{}'", name, op);

  Node node;
  node.op = std::string(op);
  node.attributes = std::move(attributes);
  node.inputs = std::move(inputs);
  std::vector<TypedShape> types;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ValueId id = node.inputs[i];
    if (id == kNoValue) {
      types.emplace_back();
      continue;
    }
    if (id.value() < 0 || id.value() >= static_cast<int32_t>(graph_.values_.size())) {
      return InvalidArgument("node '{}' ({}): input {} is value {}, which does not exist", name, op,
                             i, id);
    }
    const Value& value = graph_.value(id);
    types.push_back({value.dtype, value.shape});
  }
  absl::StatusOr<std::vector<TypedShape>> outputs = def->infer(node, types);
  if (!outputs.ok()) return Annotate(outputs.status(), fmt::format("node '{}' ({})", name, op));
  for (const TypedShape& output : *outputs) {
    int64_t elements = 0;
    if (!CheckedElements(output.shape.dims(), std::numeric_limits<int64_t>::max() / 8, &elements)) {
      return InvalidArgument("node '{}' ({}): its output {} is too large", name, op,
                             output.shape.ToString());
    }
  }

  NodeId id(graph_.node_count());
  node.name = UniqueNodeName(std::move(name));
  for (size_t i = 0; i < outputs->size(); ++i) {
    Value value;
    bool named = i < output_names.size() && !output_names[i].empty();
    value.name = named ? std::move(output_names[i]) : fmt::format("{}:{}", node.name, i);
    value.dtype = (*outputs)[i].dtype;
    value.shape = std::move((*outputs)[i].shape);
    value.producer = id;
    node.outputs.push_back(AddValue(std::move(value)));
  }
  for (ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    std::vector<NodeId>& readers = graph_.consumers_[input.value()];
    if (readers.empty() || readers.back() != id) readers.push_back(id);
  }
  std::vector<ValueId> result = node.outputs;
  graph_.nodes_.push_back(std::move(node));
  return result;
}

void GraphBuilder::DropOutput(NodeId node, int index) {
  ValueId& id = graph_.nodes_[node.value()].outputs[index];
  if (id == kNoValue) return;
  PIPEDREAM_CHECK(graph_.consumers(id).empty());
  graph_.values_[id.value()].producer = kNoNode;
  id = kNoValue;
}

absl::StatusOr<Graph> GraphBuilder::Build() && {
  for (ValueId id : graph_.outputs_) {
    if (id.value() < 0 || id.value() >= static_cast<int32_t>(graph_.values_.size())) {
      return InvalidArgument("graph output {} does not exist", id);
    }
  }
  return std::move(graph_);
}

}  // namespace pipedream
