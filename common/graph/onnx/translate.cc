#include "common/graph/onnx/translate.h"

#include <map>

#include "common/base/status.h"
#include "common/graph/onnx/binder.h"

namespace pipedream::onnx_import {

const Translator* FindTranslator(std::string_view op) {
  static const auto* table = [] {
    auto* map = new std::map<std::string_view, Translator>();
    for (auto list : {ConvolutionTranslators, MatMulTranslators, ElementwiseTranslators,
                      PoolTranslators, NormalizationTranslators, ShapeTranslators,
                      SelectionTranslators, ReductionTranslators, LossTranslators})
      for (const Translator& translator : list()) map->emplace(translator.op, translator);
    return map;
  }();
  auto found = table->find(op);
  return found == table->end() ? nullptr : &found->second;
}

int64_t StableHash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return static_cast<int64_t>(hash >> 1);  // not negative: easier to read
}

GraphForm Translation::form() const { return binder_.in_.form; }

const Shape& Translation::InputShape(int i) const { return binder_.Get(node_.inputs[i]).shape; }

DataType Translation::InputType(int i) const { return binder_.Get(node_.inputs[i]).dtype; }

ValueId Translation::Input(int i) { return binder_.Materialize(node_.inputs[i]); }

bool Translation::IsConstant(int i) const {
  const Tracked& tracked = binder_.Get(node_.inputs[i]);
  return tracked.kind == Tracked::Kind::kConstant && !tracked.trains;
}

const Tensor& Translation::Constant(int i) const { return binder_.Get(node_.inputs[i]).data; }

absl::StatusOr<ValueId> Translation::StateInput(int i) {
  Tracked& tracked = binder_.Get(node_.inputs[i]);
  if (tracked.source.empty() || tracked.kind != Tracked::Kind::kConstant)
    return Unimplemented("its running statistics '{}' are not initializers", node_.inputs[i]);
  if (tracked.id == kNoValue) tracked.id = binder_.builder_.AddState(tracked.source, tracked.data);
  if (binder_.builder_.graph().value(tracked.id).kind != ValueKind::kState)
    return Unimplemented("its running statistics '{}' are also read as a weight", tracked.source);
  return tracked.id;
}

absl::StatusOr<std::vector<int64_t>> Translation::ConstantInts(int i) const {
  const Tracked& tracked = binder_.Get(node_.inputs[i]);
  if (tracked.kind != Tracked::Kind::kConstant)
    return Unimplemented("its input '{}' is computed at run time from data", node_.inputs[i]);
  if (tracked.dtype != DataType::kInt64)
    return InvalidArgument("input {} ('{}') has type {}, expected int64", i, node_.inputs[i],
                           ToString(tracked.dtype));
  if (tracked.shape.rank() > 1)
    return InvalidArgument("input {} ('{}') has shape {}, expected one axis", i, node_.inputs[i],
                           tracked.shape.ToString());
  auto values = tracked.data.as<int64_t>();
  return std::vector<int64_t>(values.begin(), values.end());
}

absl::StatusOr<double> Translation::ConstantFloat(int i) const {
  const Tracked& tracked = binder_.Get(node_.inputs[i]);
  if (tracked.kind != Tracked::Kind::kConstant)
    return Unimplemented("its input '{}' is computed at run time", node_.inputs[i]);
  if (tracked.shape.elements() != 1)
    return InvalidArgument("input {} ('{}') has shape {}, expected one element", i, node_.inputs[i],
                           tracked.shape.ToString());
  if (tracked.dtype == DataType::kInt64) return static_cast<double>(tracked.data.as<int64_t>()[0]);
  if (tracked.dtype != DataType::kFloat32)
    return InvalidArgument("input {} ('{}') has type {}, expected float32", i, node_.inputs[i],
                           ToString(tracked.dtype));
  return static_cast<double>(tracked.data.as<float>()[0]);
}

absl::StatusOr<std::optional<std::vector<int64_t>>> Translation::IntsFrom(
    std::string_view attribute, int i) {
  if (HasInput(i)) {
    PD_ASSIGN_OR_RETURN(std::vector<int64_t> values, ConstantInts(i));
    return std::optional(std::move(values));
  }
  if (!attributes.Has(attribute)) return std::optional<std::vector<int64_t>>();
  std::vector<int64_t> values = attributes.Ints(attribute);
  PD_RETURN_IF_ERROR(attributes.status());
  return std::optional(std::move(values));
}

std::vector<int64_t> Translation::Rebatched(std::vector<int64_t> target, int i) const {
  if (!binder_.rebinding() || target.empty()) return target;
  const Tracked& x = binder_.Get(node_.inputs[0]);
  // Made from shapes, it follows the batch by itself.
  if (binder_.Get(node_.inputs[i]).shape_arithmetic || x.batch_axis != 0) return target;
  int64_t old = binder_.in_.model.fixed_batch();
  if (target[0] > 0 && target[0] % old == 0) target[0] = target[0] / old * binder_.in_.batch;
  return target;
}

bool Translation::WantsOutput(int i) const {
  if (i >= static_cast<int>(node_.outputs.size()) || node_.outputs[i].empty()) return false;
  return binder_.wanted_.contains(node_.outputs[i]);
}

absl::StatusOr<std::vector<ValueId>> Translation::Emit(std::string_view op,
                                                       std::vector<ValueId> inputs,
                                                       Attributes attributes) {
  std::string name = fmt::format("{}:{}", node_.name, emitted_++);
  return binder_.builder_.AddNode(std::move(name), op, std::move(inputs), std::move(attributes));
}

absl::StatusOr<std::vector<ValueId>> Translation::EmitOutput(std::string_view op,
                                                             std::vector<ValueId> inputs,
                                                             Attributes attributes) {
  PD_ASSIGN_OR_RETURN(auto outputs,
                      binder_.builder_.AddNode(node_.name, op, std::move(inputs),
                                               std::move(attributes), {node_.outputs[0]}));
  DefineOutput(0, outputs[0]);
  return outputs;
}

absl::Status Translation::EmitOutputs(std::string_view op, std::vector<ValueId> inputs,
                                      Attributes attributes) {
  PD_ASSIGN_OR_RETURN(auto outputs, binder_.builder_.AddNode(node_.name, op, std::move(inputs),
                                                             std::move(attributes), node_.outputs));
  for (size_t i = 0; i < node_.outputs.size(); ++i)
    if (!node_.outputs[i].empty()) DefineOutput(i, outputs[i]);
  return absl::OkStatus();
}

void Translation::DefineOutput(size_t i, ValueId id) {
  const Value& value = binder_.builder_.graph().value(id);
  Tracked tracked;
  tracked.dtype = value.dtype;
  tracked.shape = value.shape;
  tracked.id = id;
  binder_.Define(node_.outputs[i], std::move(tracked));
}

absl::Status Translation::Alias(int i) {
  binder_.DefineAlias(node_.outputs[0], node_.inputs[i]);
  return absl::OkStatus();
}

absl::Status Translation::EmitReshape(std::vector<int64_t> dims) {
  if (dims == InputShape(0).dims()) return Alias(0);
  return EmitOutput("Reshape", {Input(0)}, Attributes().Set("shape", std::move(dims))).status();
}

const Shape& Translation::ShapeOf(ValueId id) const {
  return binder_.builder_.graph().value(id).shape;
}

}  // namespace pipedream::onnx_import
