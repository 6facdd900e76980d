#include <map>

#include "common/graph/op_def.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream {

const std::vector<const OpDef*>& AllOpDefs() {
  static const auto* all = [] {
    auto* list = new std::vector<const OpDef*>();
    for (auto family :
         {op_defs::ConvOps, op_defs::MatMulOps, op_defs::ArithmeticOps, op_defs::ActivationOps,
          op_defs::PoolOps, op_defs::NormalizationOps, op_defs::LayerNormOps, op_defs::ShapeOps,
          op_defs::SelectionOps, op_defs::ReduceOps, op_defs::SoftmaxOps, op_defs::LossOps}) {
      for (const OpDef& def : family()) list->push_back(&def);
    }
    return list;
  }();
  return *all;
}

const OpDef* FindOpDef(std::string_view name) {
  static const auto* by_name = [] {
    auto* map = new std::map<std::string_view, const OpDef*>();
    for (const OpDef* def : AllOpDefs()) map->emplace(def->name, def);
    return map;
  }();
  auto it = by_name->find(name);
  return it == by_name->end() ? nullptr : it->second;
}

Cost CostOf(const Graph& graph, const Node& node) {
  auto types_of = [&](const std::vector<ValueId>& ids) {
    std::vector<TypedShape> types;
    for (ValueId id : ids) {
      // What is absent costs nothing.
      types.push_back(id == kNoValue ? TypedShape{DataType::kOpaque, Shape({0})}
                                     : TypedShape{graph.value(id).dtype, graph.value(id).shape});
    }
    return types;
  };
  std::vector<TypedShape> inputs = types_of(node.inputs);
  std::vector<TypedShape> outputs = types_of(node.outputs);
  const OpDef* def = FindOpDef(node.op);
  if (def != nullptr && def->cost != nullptr) return def->cost(node, inputs, outputs);
  double flops = 0;
  for (const TypedShape& output : outputs) flops += static_cast<double>(output.shape.elements());
  return {flops, op_defs::TransferBytes(inputs, outputs)};
}

}  // namespace pipedream
