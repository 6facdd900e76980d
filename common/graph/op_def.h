// What an operator *is*, apart from any device: shape inference, gradient rule, cost. One file per
// family in op_defs/, one table in op_defs/registry.cc. Names are ONNX's where the operator is
// ONNX's; gradients are operators too ("ConvGradInput", "ReluGrad").
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/graph/graph.h"

namespace pipedream {

struct TypedShape {
  DataType dtype = DataType::kFloat32;
  Shape shape;
};

// Lets a gradient rule add nodes for one forward node.
class GradientContext {
 public:
  virtual ~GradientContext() = default;
  virtual const Node& node() const = 0;
  virtual const Graph& graph() const = 0;
  // Gradient of output `index`; kNoValue if nothing depends on it.
  virtual ValueId output_gradient(int index) const = 0;
  // Does anything want the gradient of input `index`?
  virtual bool wants(int index) const = 0;
  // Adds a node; returns its outputs.
  virtual absl::StatusOr<std::vector<ValueId>> Add(std::string_view op, std::vector<ValueId> inputs,
                                                   Attributes attributes) = 0;
  virtual void SetInputGradient(int index, ValueId gradient) = 0;
};

struct Cost {
  double flops = 0;   // multiply and add count as two
  double bytes = 0;   // read and written once each
};

struct OpDef {
  std::string_view name;
  // All outputs that the operator defines; `inputs` has a default entry where one is absent.
  // kInvalidArgument says which input or attribute does not fit (without the node's name).
  absl::StatusOr<std::vector<TypedShape>> (*infer)(const Node& node,
                                                   const std::vector<TypedShape>& inputs);
  // Null: the operator passes no gradient to any input.
  absl::Status (*gradient)(GradientContext& context) = nullptr;
  // Null: elementwise cost.
  Cost (*cost)(const Node& node, const std::vector<TypedShape>& inputs,
               const std::vector<TypedShape>& outputs) = nullptr;
  // Bit i: output i may be dropped where nothing reads it (GraphBuilder::DropOutput).
  uint32_t optional_outputs = 0;
};

// Null for an unknown name.
const OpDef* FindOpDef(std::string_view name);
const std::vector<const OpDef*>& AllOpDefs();
Cost CostOf(const Graph& graph, const Node& node);

}  // namespace pipedream
