#include "examples/models/onnx_writer.h"

#include <onnx/onnx_pb.h>

#include <cmath>
#include <fstream>
#include <utility>

#include "common/base/random.h"

namespace pipedream {

struct OnnxWriter::State {
  onnx::ModelProto model;
  uint64_t seed = 0;
  uint64_t tensors = 0;  // drawn so far: the stream of the next

  onnx::NodeProto& Node(const std::string& name, const char* op, std::vector<std::string> inputs) {
    onnx::NodeProto& node = *model.mutable_graph()->add_node();
    node.set_name(name);
    node.set_op_type(op);
    for (std::string& input : inputs) node.add_input(std::move(input));
    node.add_output(name + "_out");
    return node;
  }

  std::string Tensor(const std::string& name, const std::vector<int64_t>& dims,
                     const std::vector<float>& values) {
    onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t d : dims) tensor.add_dims(d);
    tensor.set_raw_data(values.data(), values.size() * sizeof(float));
    return name;
  }

  std::string Uniform(const std::string& name, const std::vector<int64_t>& dims, double bound) {
    int64_t count = 1;
    for (int64_t d : dims) count *= d;
    std::vector<float> values(count);
    const uint64_t stream = ++tensors;
    for (int64_t i = 0; i < count; i += 4) {
      auto bits = Philox(seed, stream, i);
      for (int64_t k = 0; k < 4 && i + k < count; ++k)
        values[i + k] = static_cast<float>((2.0 * UniformFloat(bits[k]) - 1) * bound);
    }
    return Tensor(name, dims, values);
  }

  std::string Constant(const std::string& name, int64_t count, float value) {
    return Tensor(name, {count}, std::vector<float>(count, value));
  }
};

namespace {

void SetInts(onnx::NodeProto& node, const char* name, const std::vector<int64_t>& values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t v : values) attribute.add_ints(v);
}

void SetInt(onnx::NodeProto& node, const char* name, int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void SetShape(onnx::ValueInfoProto& value, const std::string& name,
              const std::vector<int64_t>& sample) {
  value.set_name(name);
  onnx::TypeProto::Tensor& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("N");
  for (int64_t d : sample) type.mutable_shape()->add_dim()->set_dim_value(d);
}

}  // namespace

OnnxWriter::OnnxWriter(std::string graph_name, std::vector<int64_t> sample, uint64_t seed)
    : state_(std::make_unique<State>()) {
  state_->seed = seed;
  state_->model.set_ir_version(8);
  state_->model.set_producer_name("pipedream examples");
  state_->model.add_opset_import()->set_version(17);
  state_->model.mutable_graph()->set_name(std::move(graph_name));
  SetShape(*state_->model.mutable_graph()->add_input(), "x", sample);
}

OnnxWriter::~OnnxWriter() = default;

std::string OnnxWriter::Conv(const std::string& name, const std::string& x, int64_t in, int64_t out,
                             int64_t kernel, int64_t stride, int64_t pad, bool bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(in * kernel * kernel));
  std::vector<std::string> inputs = {
      x, state_->Uniform(name + ".weight", {out, in, kernel, kernel}, bound)};
  if (bias) inputs.push_back(state_->Uniform(name + ".bias", {out}, bound));
  onnx::NodeProto& node = state_->Node(name, "Conv", std::move(inputs));
  SetInts(node, "kernel_shape", {kernel, kernel});
  SetInts(node, "strides", {stride, stride});
  SetInts(node, "pads", {pad, pad, pad, pad});
  return node.output(0);
}

std::string OnnxWriter::BatchNorm(const std::string& name, const std::string& x, int64_t channels) {
  return state_
      ->Node(name, "BatchNormalization",
             {x, state_->Constant(name + ".weight", channels, 1),
              state_->Constant(name + ".bias", channels, 0),
              state_->Constant(name + ".running_mean", channels, 0),
              state_->Constant(name + ".running_var", channels, 1)})
      .output(0);
}

std::string OnnxWriter::Linear(const std::string& name, const std::string& x, int64_t in,
                               int64_t out) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  onnx::NodeProto& node = state_->Node(name, "Gemm",
                                       {x, state_->Uniform(name + ".weight", {out, in}, bound),
                                        state_->Uniform(name + ".bias", {out}, bound)});
  SetInt(node, "transB", 1);
  return node.output(0);
}

std::string OnnxWriter::Relu(const std::string& name, const std::string& x) {
  return state_->Node(name, "Relu", {x}).output(0);
}

std::string OnnxWriter::Add(const std::string& name, const std::string& a, const std::string& b) {
  return state_->Node(name, "Add", {a, b}).output(0);
}

std::string OnnxWriter::MaxPool(const std::string& name, const std::string& x, int64_t kernel,
                                int64_t stride, int64_t pad) {
  onnx::NodeProto& node = state_->Node(name, "MaxPool", {x});
  SetInts(node, "kernel_shape", {kernel, kernel});
  SetInts(node, "strides", {stride, stride});
  SetInts(node, "pads", {pad, pad, pad, pad});
  return node.output(0);
}

std::string OnnxWriter::GlobalAveragePool(const std::string& name, const std::string& x) {
  return state_->Node(name, "GlobalAveragePool", {x}).output(0);
}

std::string OnnxWriter::Flatten(const std::string& name, const std::string& x) {
  return state_->Node(name, "Flatten", {x}).output(0);
}

std::string OnnxWriter::Dropout(const std::string& name, const std::string& x, float ratio) {
  onnx::TensorProto& tensor = *state_->model.mutable_graph()->add_initializer();
  tensor.set_name(name + ".ratio");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.set_raw_data(&ratio, sizeof ratio);
  return state_->Node(name, "Dropout", {x, name + ".ratio"}).output(0);
}

bool OnnxWriter::Write(const std::string& output, int64_t classes, const std::string& path) {
  onnx::GraphProto& graph = *state_->model.mutable_graph();
  for (onnx::NodeProto& node : *graph.mutable_node())
    for (std::string& name : *node.mutable_output())
      if (name == output) name = "logits";
  SetShape(*graph.add_output(), "logits", {classes});
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  return state_->model.SerializeToOstream(&file) && file.flush().good();
}

}  // namespace pipedream
