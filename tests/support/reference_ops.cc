#include "tests/support/reference_ops.h"

#include "common/base/status.h"
#include "tests/support/reference_families.h"

namespace pipedream {
namespace reference {

void ForEachIndex(const Shape& shape,
                  const std::function<void(const Index&, int64_t flat)>& visit) {
  Index index(shape.rank(), 0);
  int64_t elements = shape.elements();
  for (int64_t flat = 0; flat < elements; ++flat) {
    visit(index, flat);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

int64_t Flat(const Shape& shape, const Index& index) {
  int64_t flat = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + index[axis];
  return flat;
}

int64_t BroadcastFlat(const Shape& shape, const Index& index) {
  int64_t flat = 0;
  size_t skipped = index.size() - shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    flat = flat * shape[axis] + (shape[axis] == 1 ? 0 : index[axis + skipped]);
  }
  return flat;
}

}  // namespace reference

absl::StatusOr<std::vector<ReferenceTensor>> RunReference(
    const Graph& graph, const Node& node, const std::vector<ReferenceTensor>& inputs) {
  reference::Call call{graph, node, inputs};
  for (auto family :
       {reference::Elementwise, reference::Products, reference::Spatial, reference::Normalizations,
        reference::Movements, reference::Selections, reference::SoftmaxAndLosses}) {
    if (reference::Result result = family(call)) return *std::move(result);
  }
  return Unimplemented("no reference for operator '{}'", node.op);
}

namespace {

template <typename T>
ReferenceTensor ToDoubles(const Tensor& tensor) {
  std::span<const T> data = tensor.as<T>();
  return ReferenceTensor(data.begin(), data.end());
}

absl::StatusOr<ReferenceTensor> Given(const Value& value,
                                      const std::map<std::string, ReferenceTensor>& given) {
  auto it = given.find(value.name);
  if (it != given.end()) {
    if (static_cast<int64_t>(it->second.size()) != value.shape.elements()) {
      return InvalidArgument("'{}' has {} elements, got {}", value.name, value.shape.elements(),
                             it->second.size());
    }
    return it->second;
  }
  if (value.data.empty()) return InvalidArgument("no value given for '{}'", value.name);
  switch (value.dtype) {
    case DataType::kFloat32:
      return ToDoubles<float>(value.data);
    case DataType::kInt64:
      return ToDoubles<int64_t>(value.data);
    case DataType::kBool:
      return ToDoubles<uint8_t>(value.data);
    default:
      return Unimplemented("'{}' is {}", value.name, ToString(value.dtype));
  }
}

}  // namespace

absl::StatusOr<std::vector<ReferenceTensor>> RunReferenceGraph(
    const Graph& graph, const std::map<std::string, ReferenceTensor>& given, int nodes) {
  std::vector<ReferenceTensor> values(graph.values().size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.kind == ValueKind::kComputed) continue;
    PD_ASSIGN_OR_RETURN(values[i], Given(value, given));
  }
  if (nodes < 0) nodes = graph.node_count();
  for (int n = 0; n < nodes; ++n) {
    const Node& node = graph.node(NodeId(n));
    std::vector<ReferenceTensor> inputs;
    for (ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? ReferenceTensor() : values[id.value()]);
    }
    PD_ASSIGN_OR_RETURN(std::vector<ReferenceTensor> outputs, RunReference(graph, node, inputs));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      values[node.outputs[i].value()] = std::move(outputs[i]);
    }
  }
  return values;
}

}  // namespace pipedream
