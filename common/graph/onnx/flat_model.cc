#include "common/graph/onnx/flat_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/graph/onnx/inline_functions.h"
#include "common/graph/onnx/node_attributes.h"
#include "common/graph/onnx/proto.h"

namespace pipedream::onnx_import {
namespace {

constexpr int64_t kMaxFilledBytes = int64_t{4} << 30;

absl::StatusOr<FlatInput> ReadInput(const onnx::ValueInfoProto& proto) {
  FlatInput input;
  input.name = proto.name();
  const auto& type = proto.type().tensor_type();
  input.onnx_type = type.elem_type();
  ComputeType(input.onnx_type, &input.dtype);
  const auto& leading = type.shape().dim(0);
  // Some exporters write 0 or -1 for "any".
  if (leading.dim_value() > 0) input.batch = leading.dim_value();
  if (leading.has_dim_param()) input.batch_symbol = leading.dim_param();
  std::vector<int64_t> dims;
  for (int axis = 1; axis < type.shape().dim_size(); ++axis)
    dims.push_back(type.shape().dim(axis).dim_value());
  int64_t elements = 0;
  if (!CheckedElements(dims, int64_t{1} << 40, &elements))
    return InvalidArgument("graph input '{}': one sample has more than 2^40 elements", input.name);
  input.sample_shape = Shape(std::move(dims));
  return input;
}

FlatConstant FromProto(const onnx::TensorProto& proto, const std::string& what,
                       FlatConstant::Source kind, const TensorSource& source) {
  FlatConstant constant;
  constant.source = kind;
  constant.onnx_type = proto.data_type();
  auto tensor = ReadTensor(proto, what, source);
  if (tensor.ok())
    constant.value = *std::move(tensor);
  else
    constant.unusable = tensor.status();
  return constant;
}

template <typename T>
FlatConstant FromList(const google::protobuf::RepeatedField<T>& values, bool scalar,
                      int onnx_type) {
  FlatConstant constant;
  constant.source = FlatConstant::Source::kConstantNode;
  constant.onnx_type = onnx_type;
  constant.value = Tensor::FromVector(scalar ? Shape{} : Shape{values.size()},
                                      std::vector<T>(values.begin(), values.end()));
  return constant;
}

// All value_* forms.
absl::StatusOr<FlatConstant> ReadConstantNode(const FlatNode& node, const TensorSource& source) {
  if (node.attributes.size() != 1 || node.outputs.size() != 1)
    return InvalidArgument("node '{}' (Constant) needs one value and one output", node.name);
  const auto& [name, attribute] = *node.attributes.begin();
  if (name == "value" && attribute->type() == onnx::AttributeProto::TENSOR)
    return FromProto(attribute->t(), fmt::format("node '{}' (Constant)", node.name),
                     FlatConstant::Source::kConstantNode, source);
  google::protobuf::RepeatedField<float> floats;
  google::protobuf::RepeatedField<int64_t> ints;
  if (name == "value_float" && attribute->type() == onnx::AttributeProto::FLOAT) {
    floats.Add(attribute->f());
    return FromList(floats, true, onnx::TensorProto::FLOAT);
  }
  if (name == "value_floats" && attribute->type() == onnx::AttributeProto::FLOATS)
    return FromList(attribute->floats(), false, onnx::TensorProto::FLOAT);
  if (name == "value_int" && attribute->type() == onnx::AttributeProto::INT) {
    ints.Add(attribute->i());
    return FromList(ints, true, onnx::TensorProto::INT64);
  }
  if (name == "value_ints" && attribute->type() == onnx::AttributeProto::INTS) {
    ints.CopyFrom(attribute->ints());
    return FromList(ints, false, onnx::TensorProto::INT64);
  }
  FlatConstant constant;
  constant.unusable =
      Unimplemented("node '{}' (Constant): attribute '{}' is not supported", node.name, name);
  return constant;
}

// A float tensor of one repeated value; zeros cost no memory until they are touched.
absl::StatusOr<Tensor> Filled(const Shape& shape, float value) {
  size_t bytes = static_cast<size_t>(shape.elements()) * sizeof(float);
  std::shared_ptr<void> owner(std::calloc(bytes / sizeof(float) + 1, sizeof(float)), std::free);
  if (!owner) return ResourceExhausted("no memory for a tensor of {} bytes", bytes);
  auto* data = static_cast<float*>(owner.get());
  if (value != 0) std::fill_n(data, shape.elements(), value);
  return Tensor(DataType::kFloat32, shape, owner,
                std::span<const std::byte>(reinterpret_cast<std::byte*>(data), bytes));
}

class Flattener {
 public:
  explicit Flattener(const TensorSource& source) : source_(source), proto_(*source.model) {}

  absl::StatusOr<FlatModel> Run() {
    model_.proto = source_.model;
    PD_RETURN_IF_ERROR(ReadInterface());
    PD_ASSIGN_OR_RETURN(InlinedNodes inlined, InlineFunctions(proto_));
    model_.owned = std::move(inlined.owned);
    model_.function_constants = std::move(inlined.function_constants);
    KeepLive(std::move(inlined.nodes));
    for (const auto& tensor : proto_.graph().initializer())
      if (wanted_.contains(tensor.name()))
        model_.constants[tensor.name()] =
            FromProto(tensor, fmt::format("initializer '{}'", tensor.name()),
                      FlatConstant::Source::kInitializer, source_);
    PD_RETURN_IF_ERROR(TakeConstants());
    return std::move(model_);
  }

 private:
  absl::Status ReadInterface() {
    std::set<std::string> weights;
    for (const auto& tensor : proto_.graph().initializer()) weights.insert(tensor.name());
    for (const auto& input : proto_.graph().input()) {
      if (weights.contains(input.name())) continue;
      PD_ASSIGN_OR_RETURN(FlatInput read, ReadInput(input));
      for (const FlatInput& other : model_.inputs)
        if (other.batch > 0 && read.batch > 0 && other.batch != read.batch)
          return InvalidArgument(
              "graph inputs '{}' and '{}' have different leading (batch) sizes, {} and {}",
              other.name, read.name, other.batch, read.batch);
      model_.inputs.push_back(std::move(read));
    }
    for (const auto& output : proto_.graph().output()) {
      FlatOutput out{output.name(), ""};
      const auto& shape = output.type().tensor_type().shape();
      if (shape.dim_size() > 0) out.batch_symbol = shape.dim(0).dim_param();
      model_.outputs.push_back(std::move(out));
    }
    return absl::OkStatus();
  }

  void KeepLive(std::vector<FlatNode> nodes) {
    for (const auto& output : model_.outputs) wanted_.insert(output.name);
    std::vector<FlatNode> reversed;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      bool live = false;
      for (const std::string& output : node->outputs)
        live = live || (!output.empty() && wanted_.contains(output));
      if (!live) {
        ++model_.dropped_nodes;
        continue;
      }
      for (const std::string& input : node->inputs)
        if (!input.empty()) wanted_.insert(input);
      reversed.push_back(std::move(*node));
    }
    model_.nodes.assign(std::make_move_iterator(reversed.rbegin()),
                        std::make_move_iterator(reversed.rend()));
  }

  // Moves Constant nodes, and ConstantOfShape nodes that stand for weights, to the constants.
  absl::Status TakeConstants() {
    std::vector<FlatNode> rest;
    for (FlatNode& node : model_.nodes) {
      if (node.domain.empty() && node.op == "Constant") {
        PD_ASSIGN_OR_RETURN(FlatConstant constant, ReadConstantNode(node, source_));
        model_.constants[node.outputs[0]] = std::move(constant);
        continue;
      }
      bool taken = false;
      if (node.domain.empty() && node.op == "ConstantOfShape")
        PD_RETURN_IF_ERROR(TakeFilled(node, &taken));
      if (!taken) rest.push_back(std::move(node));
    }
    model_.nodes = std::move(rest);
    return absl::OkStatus();
  }

  absl::Status TakeFilled(const FlatNode& node, bool* taken) {
    if (node.inputs.size() != 1 || node.outputs.size() != 1) return absl::OkStatus();
    auto shape_constant = model_.constants.find(node.inputs[0]);
    if (shape_constant == model_.constants.end()) return absl::OkStatus();
    const Tensor& dims = shape_constant->second.value;
    if (dims.empty() || dims.dtype() != DataType::kInt64 || dims.shape().rank() != 1)
      return absl::OkStatus();
    float value = 0;
    NodeAttributes attributes(node);
    if (const onnx::TensorProto* fill = attributes.TensorValue("value")) {
      if (fill->data_type() != onnx::TensorProto::FLOAT) return absl::OkStatus();
      PD_ASSIGN_OR_RETURN(
          Tensor one,
          ReadTensor(*fill, fmt::format("node '{}' (ConstantOfShape)", node.name), source_));
      if (one.shape().elements() != 1) return absl::OkStatus();
      value = one.as<float>()[0];
    }
    auto sizes = dims.as<int64_t>();
    int64_t elements = 0;
    if (!CheckedElements(sizes, source_.max_tensor_bytes / 4, &elements))
      return InvalidArgument(
          "node '{}' (ConstantOfShape): [{}] is no shape of a tensor within the "
          "limit of {} bytes",
          node.name, fmt::join(sizes, ", "), source_.max_tensor_bytes);
    Shape shape(std::vector<int64_t>(sizes.begin(), sizes.end()));
    auto& shared =
        filled_[{shape.dims(), std::bit_cast<uint32_t>(value)}];  // equal ones share their bytes
    if (shared.empty()) {
      filled_bytes_ += elements * 4;
      if (filled_bytes_ > kMaxFilledBytes)
        return ResourceExhausted("node '{}': tensors made by ConstantOfShape pass {} bytes",
                                 node.name, kMaxFilledBytes);
      PD_ASSIGN_OR_RETURN(shared, Filled(shape, value));
    }
    FlatConstant constant;
    constant.source = FlatConstant::Source::kFilled;
    constant.value = shared;
    constant.onnx_type = onnx::TensorProto::FLOAT;
    model_.constants[node.outputs[0]] = std::move(constant);
    *taken = true;
    return absl::OkStatus();
  }

  const TensorSource& source_;
  const onnx::ModelProto& proto_;
  FlatModel model_;
  std::set<std::string> wanted_;
  std::map<std::pair<std::vector<int64_t>, uint32_t>, Tensor> filled_;  // by shape and bits
  int64_t filled_bytes_ = 0;
};

}  // namespace

int64_t FlatModel::fixed_batch() const {
  for (const FlatInput& input : inputs)
    if (input.batch == 0) return 0;
  return inputs.empty() ? 0 : inputs[0].batch;
}

absl::StatusOr<FlatModel> Flatten(const TensorSource& source) { return Flattener(source).Run(); }

}  // namespace pipedream::onnx_import
