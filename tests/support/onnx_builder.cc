#include "tests/support/onnx_builder.h"

#include <fstream>

#include "common/base/status.h"

namespace pipedream {

onnx::AttributeProto* OnnxNode::Add(const std::string& name,
                                    onnx::AttributeProto::AttributeType type) {
  auto* attribute = node_->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

OnnxNode& OnnxNode::Int(const std::string& name, int64_t value) {
  Add(name, onnx::AttributeProto::INT)->set_i(value);
  return *this;
}

OnnxNode& OnnxNode::Float(const std::string& name, float value) {
  Add(name, onnx::AttributeProto::FLOAT)->set_f(value);
  return *this;
}

OnnxNode& OnnxNode::String(const std::string& name, const std::string& value) {
  Add(name, onnx::AttributeProto::STRING)->set_s(value);
  return *this;
}

OnnxNode& OnnxNode::Ints(const std::string& name, const std::vector<int64_t>& values) {
  auto* attribute = Add(name, onnx::AttributeProto::INTS);
  for (int64_t v : values) attribute->add_ints(v);
  return *this;
}

OnnxNode& OnnxNode::Floats(const std::string& name, const std::vector<float>& values) {
  auto* attribute = Add(name, onnx::AttributeProto::FLOATS);
  for (float v : values) attribute->add_floats(v);
  return *this;
}

OnnxNode& OnnxNode::TensorValue(const std::string& name, const onnx::TensorProto& tensor) {
  *Add(name, onnx::AttributeProto::TENSOR)->mutable_t() = tensor;
  return *this;
}

OnnxNode& OnnxNode::Reference(const std::string& name, const std::string& of,
                              onnx::AttributeProto::AttributeType type) {
  Add(name, type)->set_ref_attr_name(of);
  return *this;
}

OnnxNode& OnnxNode::Domain(const std::string& domain) {
  node_->set_domain(domain);
  return *this;
}

OnnxNode& OnnxNode::Name(const std::string& name) {
  node_->set_name(name);
  return *this;
}

onnx::TensorProto OnnxFloats(const std::string& name, const std::vector<int64_t>& dims,
                             const std::vector<float>& values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t d : dims) tensor.add_dims(d);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return tensor;
}

onnx::TensorProto OnnxInts(const std::string& name, const std::vector<int64_t>& dims,
                           const std::vector<int64_t>& values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  for (int64_t d : dims) tensor.add_dims(d);
  for (int64_t v : values) tensor.add_int64_data(v);
  return tensor;
}

OnnxNode AddOnnxNode(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes,
                     const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) {
  auto* node = nodes->Add();
  node->set_op_type(op);
  if (!outputs.empty()) node->set_name(outputs[0]);
  for (const std::string& name : inputs) node->add_input(name);
  for (const std::string& name : outputs) node->add_output(name);
  return OnnxNode(node);
}

OnnxBuilder::OnnxBuilder(int64_t opset, int64_t ir_version) {
  model_.set_ir_version(ir_version);
  model_.add_opset_import()->set_version(opset);
  model_.mutable_opset_import(0)->set_domain("");
  model_.mutable_graph()->set_name("test");
}

namespace {

void SetType(onnx::ValueInfoProto* info, const std::string& name, const std::vector<int64_t>& dims,
             int type) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  auto* shape = tensor->mutable_shape();
  for (int64_t d : dims) {
    if (d < 0)
      shape->add_dim()->set_dim_param("N");
    else
      shape->add_dim()->set_dim_value(d);
  }
}

}  // namespace

OnnxBuilder& OnnxBuilder::Input(const std::string& name, const std::vector<int64_t>& dims,
                                int type) {
  SetType(model_.mutable_graph()->add_input(), name, dims, type);
  return *this;
}

OnnxBuilder& OnnxBuilder::Output(const std::string& name, const std::vector<int64_t>& dims,
                                 int type) {
  auto* output = model_.mutable_graph()->add_output();
  SetType(output, name, dims, type);
  if (dims.empty()) output->mutable_type()->mutable_tensor_type()->clear_shape();
  return *this;
}

OnnxBuilder& OnnxBuilder::Weight(const std::string& name, const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (int64_t d : dims) elements *= d;
  std::vector<float> values(elements);
  for (int64_t i = 0; i < elements; ++i)
    values[i] = 0.01f * static_cast<float>(i % 37 - 18) + 1e-4f * static_cast<float>(i % 101);
  return Floats(name, dims, values);
}

OnnxBuilder& OnnxBuilder::Floats(const std::string& name, const std::vector<int64_t>& dims,
                                 const std::vector<float>& values) {
  *model_.mutable_graph()->add_initializer() = OnnxFloats(name, dims, values);
  return *this;
}

OnnxBuilder& OnnxBuilder::Ints(const std::string& name, const std::vector<int64_t>& dims,
                               const std::vector<int64_t>& values) {
  *model_.mutable_graph()->add_initializer() = OnnxInts(name, dims, values);
  return *this;
}

OnnxNode OnnxBuilder::Node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs) {
  return AddOnnxNode(model_.mutable_graph()->mutable_node(), op, inputs, outputs);
}

onnx::FunctionProto& OnnxBuilder::Function(const std::string& name,
                                           const std::vector<std::string>& inputs,
                                           const std::vector<std::string>& outputs) {
  if (model_.functions_size() == 0) {
    auto* opset = model_.add_opset_import();
    opset->set_domain("local");
    opset->set_version(1);
  }
  auto* function = model_.add_functions();
  function->set_name(name);
  function->set_domain("local");
  for (const std::string& input : inputs) function->add_input(input);
  for (const std::string& output : outputs) function->add_output(output);
  for (const auto& opset : model_.opset_import()) *function->add_opset_import() = opset;
  return *function;
}

std::string OnnxBuilder::Serialize() const { return model_.SerializeAsString(); }

std::string OnnxBuilder::Save(const std::string& path) const {
  std::ofstream out(path, std::ios::binary);
  std::string bytes = Serialize();
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  PIPEDREAM_CHECK(out.good());
  return path;
}

}  // namespace pipedream
