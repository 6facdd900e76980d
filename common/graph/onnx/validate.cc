#include "common/graph/onnx/validate.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "common/base/status.h"
#include "common/graph/onnx/proto.h"

namespace pipedream::onnx_import {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Opsets = google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>;

// The nodes on a way from `from` back to itself through what they read, or empty.
std::vector<int> FindCycle(const Nodes& nodes, const std::map<std::string, int>& producer,
                           int from) {
  std::vector<int> came_from(nodes.size(), -1), stack{from};
  std::vector<bool> seen(nodes.size(), false);
  while (!stack.empty()) {
    int n = stack.back();
    stack.pop_back();
    for (const std::string& input : nodes[n].input()) {
      auto made = producer.find(input);
      if (made == producer.end()) continue;
      if (made->second == from) {
        std::vector<int> cycle{from};
        for (int at = n; at != from && at >= 0; at = came_from[at]) cycle.push_back(at);
        return cycle;
      }
      if (seen[made->second]) continue;
      seen[made->second] = true;
      came_from[made->second] = n;
      stack.push_back(made->second);
    }
  }
  return {};
}

absl::Status ReadTooEarly(const Nodes& nodes, const std::map<std::string, int>& producer,
                          int reader, const std::string& name, const std::string& where) {
  auto made = producer.find(name);
  if (made == producer.end())
    return InvalidArgument(
        "{}{} reads '{}', which nothing produces: it is no input, no "
        "initializer and no node's output",
        where, NodeLabel(nodes[reader]), name);
  std::vector<int> cycle = FindCycle(nodes, producer, reader);
  if (cycle.empty())
    return InvalidArgument("{}{} reads '{}' before {} makes it; nodes must be in topological order",
                           where, NodeLabel(nodes[reader]), name, NodeLabel(nodes[made->second]));
  std::string path;
  for (size_t i = 0; i < cycle.size(); ++i) {
    if (cycle.size() > 8 && i == 4) {
      path += fmt::format(" -> ({} more)", cycle.size() - 8);
      i = cycle.size() - 4;
    }
    path += fmt::format("{}{}", path.empty() ? "" : " -> ", NodeLabel(nodes[cycle[i]]));
  }
  return InvalidArgument(
      "{}the graph has a cycle: {} -> back to the first (each passes its result "
      "on to the next)",
      where, path);
}

absl::Status ValidateInputs(const onnx::GraphProto& graph, const std::set<std::string>& weights) {
  std::set<std::string> seen;
  for (const auto& input : graph.input()) {
    if (input.name().empty()) return InvalidArgument("a graph input has no name");
    if (!seen.insert(input.name()).second)
      return InvalidArgument("graph input '{}' is declared twice", input.name());
    if (weights.contains(input.name())) continue;
    if (!input.type().has_tensor_type())
      return InvalidArgument(
          "graph input '{}' is not a tensor; sequences, maps and optionals are "
          "not supported",
          input.name());
    const auto& type = input.type().tensor_type();
    DataType dtype;
    if (!ComputeType(type.elem_type(), &dtype))
      return InvalidArgument(
          "graph input '{}' has type {}; supported are float32, float64 and "
          "integers",
          input.name(), OnnxTypeName(type.elem_type()));
    if (!type.has_shape() || type.shape().dim_size() == 0)
      return InvalidArgument("graph input '{}' has no {}; the leading axis must be the batch",
                             input.name(), type.has_shape() ? "axes" : "shape");
    for (int axis = 1; axis < type.shape().dim_size(); ++axis) {
      const auto& dim = type.shape().dim(axis);
      if (dim.dim_value() > 0) continue;
      return InvalidArgument(
          "graph input '{}': axis {} has size {}; only the leading (batch) axis may be free, "
          "export "
          "the model with fixed sizes for the others",
          input.name(), axis,
          dim.has_dim_param() ? "'" + dim.dim_param() + "'" : std::to_string(dim.dim_value()));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateInitializers(const onnx::GraphProto& graph, const TensorSource& source,
                                  std::set<std::string>* names) {
  if (graph.sparse_initializer_size() > 0)
    return InvalidArgument("initializer '{}' is sparse; sparse tensors are not supported",
                           graph.sparse_initializer(0).values().name());
  for (const auto& tensor : graph.initializer()) {
    if (tensor.name().empty()) return InvalidArgument("an initializer has no name");
    if (!names->insert(tensor.name()).second)
      return InvalidArgument("two initializers are called '{}'", tensor.name());
    PD_RETURN_IF_ERROR(CheckTensor(tensor, fmt::format("initializer '{}'", tensor.name()), source));
  }
  return absl::OkStatus();
}

absl::Status ValidateAttributeTensors(const Nodes& nodes, const TensorSource& source) {
  for (const auto& node : nodes)
    for (const auto& attribute : node.attribute())
      if (attribute.has_t())
        PD_RETURN_IF_ERROR(CheckTensor(
            attribute.t(), fmt::format("{}, attribute '{}'", NodeLabel(node), attribute.name()),
            source));
  return absl::OkStatus();
}

absl::Status ValidateVersions(const onnx::ModelProto& model) {
  if (model.ir_version() < kMinIrVersion || model.ir_version() > kMaxIrVersion)
    return InvalidArgument("IR version {} is not supported (supported: {} to {})",
                           model.ir_version(), kMinIrVersion, kMaxIrVersion);
  return ValidateOpsets(model.opset_import(), "");
}

absl::Status ValidateOutputs(const onnx::GraphProto& graph, const std::set<std::string>& made) {
  if (graph.output_size() == 0) return InvalidArgument("the graph has no outputs");
  std::set<std::string> seen;
  for (const auto& output : graph.output()) {
    if (!made.contains(output.name()))
      return InvalidArgument("graph output '{}' is produced by nothing", output.name());
    if (!seen.insert(output.name()).second)
      return InvalidArgument("graph output '{}' is declared twice", output.name());
  }
  return absl::OkStatus();
}

}  // namespace

std::string NormalDomain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::string NodeLabel(const onnx::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("node '{}' ({})", node.name(), node.op_type());
  return fmt::format("the {} that makes '{}'", node.op_type(),
                     node.output_size() > 0 ? node.output(0) : "");
}

absl::Status ValidateOpsets(const Opsets& opsets, const std::string& where) {
  if (opsets.empty())
    return InvalidArgument(
        "{}opset_import is missing: the model does not say which operator set it "
        "uses",
        where);
  std::set<std::string> seen;
  for (const auto& opset : opsets) {
    std::string domain = NormalDomain(opset.domain());
    if (!seen.insert(domain).second)
      return InvalidArgument("{}opset_import has domain '{}' twice", where, domain);
    if (domain.empty() && (opset.version() < kMinOpset || opset.version() > kMaxOpset))
      return InvalidArgument("{}opset {} is not supported (supported: {} to {}); {}", where,
                             opset.version(), kMinOpset, kMaxOpset,
                             opset.version() > kMaxOpset
                                 ? "export the model with an older opset"
                                 : "convert the model with onnx's version converter");
  }
  return absl::OkStatus();
}

absl::Status ValidateNodes(const Nodes& nodes, std::set<std::string> available,
                           const Opsets& opsets, const std::string& where) {
  std::set<std::string> domains;
  for (const auto& opset : opsets) domains.insert(NormalDomain(opset.domain()));
  std::map<std::string, int> producer;
  for (int n = 0; n < nodes.size(); ++n) {
    const auto& node = nodes[n];
    if (!domains.contains(NormalDomain(node.domain())))
      return InvalidArgument("{}{} is of domain '{}', which opset_import lacks", where,
                             NodeLabel(node), node.domain());
    for (const std::string& output : node.output()) {
      if (output.empty()) continue;
      if (available.contains(output))
        return InvalidArgument("{}{} writes '{}', which is also an input or initializer", where,
                               NodeLabel(node), output);
      auto [other, fresh] = producer.emplace(output, n);
      if (!fresh)
        return InvalidArgument("{}tensor '{}' is written twice: by {} and by {}", where, output,
                               NodeLabel(nodes[other->second]), NodeLabel(node));
    }
  }
  for (int n = 0; n < nodes.size(); ++n) {
    for (const std::string& input : nodes[n].input())
      if (!input.empty() && !available.contains(input))
        return ReadTooEarly(nodes, producer, n, input, where);
    for (const std::string& output : nodes[n].output())
      if (!output.empty()) available.insert(output);
  }
  return absl::OkStatus();
}

absl::Status ValidateModel(const onnx::ModelProto& model, const TensorSource& source) {
  if (!model.has_graph())
    return InvalidArgument("the file holds no graph: it is not an ONNX model");
  PD_RETURN_IF_ERROR(ValidateVersions(model));
  const onnx::GraphProto& graph = model.graph();
  std::set<std::string> names;
  PD_RETURN_IF_ERROR(ValidateInitializers(graph, source, &names));
  PD_RETURN_IF_ERROR(ValidateInputs(graph, names));
  for (const auto& input : graph.input()) names.insert(input.name());
  PD_RETURN_IF_ERROR(ValidateNodes(graph.node(), names, model.opset_import(), ""));
  PD_RETURN_IF_ERROR(ValidateAttributeTensors(graph.node(), source));
  for (const auto& function : model.functions())
    PD_RETURN_IF_ERROR(ValidateAttributeTensors(function.node(), source));
  for (const auto& node : graph.node())
    for (const std::string& output : node.output()) names.insert(output);
  return ValidateOutputs(graph, names);
}

}  // namespace pipedream::onnx_import
