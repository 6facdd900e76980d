// A typed DAG in topological order with every shape known. Immutable: a GraphBuilder makes it, and
// making it validates it. Operators are canonical (op_def.h): what an ONNX opset left open, such as
// padding modes, defaults and axes given as tensors, has been resolved.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/strong_int.h"
#include "common/graph/attributes.h"
#include "common/graph/types.h"

namespace pipedream {

using NodeId = StrongInt<struct NodeTag, int32_t>;
using ValueId = StrongInt<struct ValueTag, int32_t>;
inline constexpr ValueId kNoValue{-1};  // an optional input or output that is absent
inline constexpr NodeId kNoNode{-1};

enum class ValueKind : uint8_t {
  kInput,      // given from outside for every microbatch: model inputs and labels
  kParameter,  // trains; `data` is the initial value
  kState,      // changed by forward in training, has no gradient: running statistics
  kConstant,   // fixed; `data` is its value
  kComputed,   // made by `producer`
};

struct Value {
  std::string name;                 // unique in the graph; the ONNX name where there is one
  DataType dtype = DataType::kFloat32;
  Shape shape;
  ValueKind kind = ValueKind::kComputed;
  Tensor data;                      // of parameters, states and constants; else empty
  NodeId producer = kNoNode;        // of computed values

  int64_t bytes() const { return shape.elements() * static_cast<int64_t>(SizeOf(dtype)); }
};

struct Node {
  std::string name;                 // unique; the ONNX node name, or made from its first output
  std::string op;                   // canonical operator name, see op_def.h
  Attributes attributes;
  std::vector<ValueId> inputs;      // kNoValue where an optional input is absent
  std::vector<ValueId> outputs;     // kNoValue where an optional output is not wanted
};

class Graph {
 public:
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Value& value(ValueId id) const { return values_[id.value()]; }
  const Node& node(NodeId id) const { return nodes_[id.value()]; }
  int node_count() const { return static_cast<int>(nodes_.size()); }
  // Graph inputs and outputs in the user's order.
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  // Nodes that read the value, in order, each once.
  const std::vector<NodeId>& consumers(ValueId id) const { return consumers_[id.value()]; }
  // kNoValue if there is none.
  ValueId FindValue(std::string_view name) const;
  // One line per node: "17 Conv conv1 (x[8, 3, 32, 32], w[16, 3, 3, 3]) -> y[...] {attributes}".
  std::string ToString() const;

 private:
  friend class GraphBuilder;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<std::vector<NodeId>> consumers_;
  std::map<std::string, ValueId, std::less<>> values_by_name_;
};

// Not thread-safe. Values and nodes get their ids in the order of adding; a node is added after what
// it reads, so the order is topological by construction.
class GraphBuilder {
 public:
  GraphBuilder() = default;
  // Starts from a copy: ids of `graph` stay valid.
  explicit GraphBuilder(const Graph& graph);

  ValueId AddInput(std::string name, DataType dtype, Shape shape);
  ValueId AddParameter(std::string name, Tensor initial);
  ValueId AddState(std::string name, Tensor initial);
  ValueId AddConstant(std::string name, Tensor value);
  // Adds a node of canonical operator `op`; its outputs' types and shapes come from the operator's
  // inference (op_def.h). Output names default to "<node name>:<index>"; a name that is taken gets a
  // suffix. kInvalidArgument names the node and what does not fit.
  absl::StatusOr<std::vector<ValueId>> AddNode(std::string name, std::string_view op,
                                               std::vector<ValueId> inputs, Attributes attributes,
                                               std::vector<std::string> output_names = {});
  void AddOutput(ValueId id) { graph_.outputs_.push_back(id); }
  // Gives up an optional output (OpDef::optional_outputs): it becomes kNoValue in the node, and the
  // value stays behind without producer. REQUIRES: no node reads it.
  void DropOutput(NodeId node, int index);
  const Graph& graph() const { return graph_; }  // so far; consumers() is up to date
  absl::StatusOr<Graph> Build() &&;

 private:
  ValueId AddValue(Value value);
  std::string UniqueNodeName(std::string wanted);
  Graph graph_;
  std::map<std::string, NodeId, std::less<>> nodes_by_name_;
};

}  // namespace pipedream
