// The parts of reference_ops.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/graph/graph.h"
#include "tests/support/reference_ops.h"

namespace pipedream::reference {

struct Call {
  const Graph& graph;
  const Node& node;
  const std::vector<ReferenceTensor>& inputs;

  bool Has(size_t i) const { return i < inputs.size() && node.inputs[i] != kNoValue; }
  const ReferenceTensor& In(size_t i) const { return inputs[i]; }
  const Shape& InShape(size_t i) const { return graph.value(node.inputs[i]).shape; }
  const Shape& OutShape(size_t i) const { return graph.value(node.outputs[i]).shape; }
  bool Is(std::string_view op) const { return node.op == op; }
  double Float(std::string_view name) const { return node.attributes.Float(name); }
  int64_t Int(std::string_view name) const { return node.attributes.Int(name); }
  std::vector<int64_t> Ints(std::string_view name) const { return node.attributes.Ints(name); }
};

using Index = std::vector<int64_t>;
using Tensors = std::vector<ReferenceTensor>;
using Result = std::optional<Tensors>;  // nullopt: not of this family

void ForEachIndex(const Shape& shape, const std::function<void(const Index&, int64_t flat)>& visit);
int64_t Flat(const Shape& shape, const Index& index);
// The element of a tensor of `shape` that broadcasting puts at `index` of a larger one.
int64_t BroadcastFlat(const Shape& shape, const Index& index);

Result Elementwise(const Call& call);
Result Products(const Call& call);
Result Spatial(const Call& call);
Result Normalizations(const Call& call);
Result Movements(const Call& call);   // shapes and reductions
Result Selections(const Call& call);  // joining, parting, picking
Result SoftmaxAndLosses(const Call& call);

}  // namespace pipedream::reference
