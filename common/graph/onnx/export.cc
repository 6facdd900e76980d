#include "common/graph/onnx/export.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <set>

#include "common/base/status.h"
#include "common/graph/onnx/external_writer.h"
#include "common/graph/onnx/inference_form.h"
#include "common/graph/onnx/proto.h"
#include "common/graph/onnx/validate.h"

namespace pipedream::onnx_import {
namespace {

// Tensors below this stay inside the model even when the others go outside.
constexpr int64_t kMinExternalBytes = 1024;

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// `type` is the ONNX type that the tensor has in the user's model.
absl::Status SetData(const Tensor& value, int type, onnx::TensorProto* out) {
  out->clear_float_data();
  out->clear_double_data();
  out->clear_external_data();
  out->clear_data_location();
  if (type == onnx::TensorProto::DOUBLE) {
    auto floats = value.as<float>();
    std::vector<double> doubles(floats.begin(), floats.end());
    out->set_raw_data(doubles.data(), doubles.size() * sizeof(double));
    return absl::OkStatus();
  }
  if (type != onnx::TensorProto::FLOAT)
    return InvalidArgument("its type in the model is {}, not a float", OnnxTypeName(type));
  out->set_raw_data(value.bytes().data(), value.bytes().size());
  return absl::OkStatus();
}

// A Constant node (or the ConstantOfShape that stood for it) that holds `value`.
absl::Status SetConstantNode(const Tensor& value, int type, onnx::NodeProto* node) {
  onnx::TensorProto tensor;
  for (const auto& attribute : node->attribute())
    if (node->op_type() == "Constant" && attribute.has_t()) tensor = attribute.t();
  tensor.set_data_type(type);
  tensor.clear_dims();
  for (int64_t d : value.shape().dims()) tensor.add_dims(d);
  PD_RETURN_IF_ERROR(SetData(value, type, &tensor));
  node->set_op_type("Constant");
  node->clear_input();
  node->clear_attribute();
  auto* attribute = node->add_attribute();
  attribute->set_name("value");
  attribute->set_type(onnx::AttributeProto::TENSOR);
  *attribute->mutable_t() = std::move(tensor);
  return absl::OkStatus();
}

absl::Status CheckTrained(const FlatModel& model, const std::map<std::string, Tensor>& trained) {
  for (const auto& [name, value] : trained) {
    auto constant = model.constants.find(name);
    if (constant == model.constants.end())
      return InvalidArgument("the model has no weight called '{}'", name);
    if (value.empty() || value.dtype() != DataType::kFloat32)
      return InvalidArgument("trained value of '{}' is not float32", name);
    const Shape& shape = constant->second.value.shape();
    if (!(value.shape() == shape))
      return InvalidArgument("trained value of '{}' has shape {}, the model's is {}", name,
                             value.shape().ToString(), shape.ToString());
  }
  return absl::OkStatus();
}

absl::Status PutTrained(const FlatModel& model, const std::map<std::string, Tensor>& trained,
                        onnx::ModelProto* out) {
  std::map<std::string, onnx::NodeProto*> makers;
  for (auto& node : *out->mutable_graph()->mutable_node())
    if (node.output_size() == 1) makers[node.output(0)] = &node;
  std::map<std::string, onnx::TensorProto*> initializers;
  for (auto& tensor : *out->mutable_graph()->mutable_initializer())
    initializers[tensor.name()] = &tensor;
  for (const auto& [name, value] : trained) {
    const FlatConstant& constant = model.constants.at(name);
    absl::Status status;
    if (auto inner = model.function_constants.find(name); inner != model.function_constants.end()) {
      const FunctionConstant& at = inner->second;
      status = SetConstantNode(value, constant.onnx_type,
                               out->mutable_functions(at.function)->mutable_node(at.node));
    } else if (auto tensor = initializers.find(name); tensor != initializers.end()) {
      status = SetData(value, constant.onnx_type, tensor->second);
    } else if (auto maker = makers.find(name); maker != makers.end()) {
      status = SetConstantNode(value, constant.onnx_type, maker->second);
    } else {
      status = Internal("it is in none of the places where weights are");
    }
    if (!status.ok()) return Annotate(status, fmt::format("weight '{}'", name));
  }
  return absl::OkStatus();
}

absl::Status ForEachTensor(onnx::ModelProto* model,
                           const std::function<absl::Status(onnx::TensorProto*)>& visit) {
  for (auto& tensor : *model->mutable_graph()->mutable_initializer())
    PD_RETURN_IF_ERROR(visit(&tensor));
  auto in_nodes = [&](Nodes* nodes) -> absl::Status {
    for (auto& node : *nodes)
      for (auto& attribute : *node.mutable_attribute())
        if (attribute.has_t()) PD_RETURN_IF_ERROR(visit(attribute.mutable_t()));
    return absl::OkStatus();
  };
  PD_RETURN_IF_ERROR(in_nodes(model->mutable_graph()->mutable_node()));
  for (auto& function : *model->mutable_functions())
    PD_RETURN_IF_ERROR(in_nodes(function.mutable_node()));
  return absl::OkStatus();
}

absl::StatusOr<std::span<const std::byte>> OldExternalBytes(const onnx::TensorProto& tensor,
                                                            const TensorSource& source) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : tensor.external_data()) {  // checked when the model was loaded
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = std::stoll(entry.value());
    if (entry.key() == "length") length = std::stoll(entry.value());
  }
  auto opened = source.files->opened().find(location);
  if (opened == source.files->opened().end())
    return Internal("external data file '{}' is not open", location);
  auto bytes = opened->second->bytes().subspan(offset);
  return length < 0 ? bytes : bytes.subspan(0, length);
}

void SetEntry(onnx::TensorProto* tensor, const std::string& key, std::string value) {
  auto* entry = tensor->add_external_data();
  entry->set_key(key);
  entry->set_value(std::move(value));
}

absl::Status MoveOutside(const TensorSource& source, const std::string& location,
                         ExternalWriter* writer, onnx::TensorProto* tensor) {
  std::span<const std::byte> bytes;
  if (IsExternal(*tensor)) {
    PD_ASSIGN_OR_RETURN(bytes, OldExternalBytes(*tensor, source));
  } else {
    if (static_cast<int64_t>(tensor->raw_data().size()) < kMinExternalBytes)
      return absl::OkStatus();
    bytes = std::as_bytes(std::span(tensor->raw_data().data(), tensor->raw_data().size()));
  }
  PD_ASSIGN_OR_RETURN(int64_t offset, writer->Append(bytes));
  size_t length = bytes.size();
  tensor->clear_raw_data();
  tensor->clear_external_data();
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  SetEntry(tensor, "location", location);
  SetEntry(tensor, "offset", std::to_string(offset));
  SetEntry(tensor, "length", std::to_string(length));
  return absl::OkStatus();
}

bool HasExternal(const onnx::ModelProto& model) {
  auto any = [](const Nodes& nodes) {
    for (const auto& node : nodes)
      for (const auto& attribute : node.attribute())
        if (attribute.has_t() && IsExternal(attribute.t())) return true;
    return false;
  };
  for (const auto& tensor : model.graph().initializer())
    if (IsExternal(tensor)) return true;
  for (const auto& function : model.functions())
    if (any(function.node())) return true;
  return any(model.graph().node());
}

}  // namespace

absl::Status ExportModel(const FlatModel& model, const std::map<std::string, Tensor>& trained,
                         const TensorSource& source, const std::string& path,
                         const ExportOptions& options) {
  PD_RETURN_IF_ERROR(CheckTrained(model, trained));
  onnx::ModelProto out = *model.proto;
  bool outside = HasExternal(out);
  PD_RETURN_IF_ERROR(PutTrained(model, trained, &out));
  ToInferenceForm(&out);
  outside = outside || static_cast<int64_t>(out.ByteSizeLong()) > options.max_inline_bytes;
  std::unique_ptr<ExternalWriter> writer;
  if (outside) {
    std::string data_path = path + ".data";
    PD_ASSIGN_OR_RETURN(writer, ExternalWriter::Create(data_path));
    std::string location = std::filesystem::path(data_path).filename().string();
    PD_RETURN_IF_ERROR(ForEachTensor(&out, [&](onnx::TensorProto* tensor) {
      return MoveOutside(source, location, writer.get(), tensor);
    }));
  }
  std::string bytes;
  if (out.ByteSizeLong() > (size_t{1} << 31) - 1 || !out.SerializeToString(&bytes))
    return ResourceExhausted("the model without its large tensors still passes 2 GiB");
  if (writer) PD_RETURN_IF_ERROR(writer->Commit());
  return WriteFileAtomic(path, bytes);
}

}  // namespace pipedream::onnx_import
