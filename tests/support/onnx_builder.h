// ONNX models written down in tests, with the packaged message classes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/graph/onnx/proto.h"

namespace pipedream {

// A node under construction: attributes are added to it by type. Valid while its model lives and
// no node is added to the same list.
class OnnxNode {
 public:
  explicit OnnxNode(onnx::NodeProto* node) : node_(node) {}
  OnnxNode& Int(const std::string& name, int64_t value);
  OnnxNode& Float(const std::string& name, float value);
  OnnxNode& String(const std::string& name, const std::string& value);
  OnnxNode& Ints(const std::string& name, const std::vector<int64_t>& values);
  OnnxNode& Floats(const std::string& name, const std::vector<float>& values);
  OnnxNode& TensorValue(const std::string& name, const onnx::TensorProto& tensor);
  // The value of the calling node's attribute `of`.
  OnnxNode& Reference(const std::string& name, const std::string& of,
                      onnx::AttributeProto::AttributeType type);
  OnnxNode& Domain(const std::string& domain);
  OnnxNode& Name(const std::string& name);
  onnx::NodeProto& proto() { return *node_; }

 private:
  onnx::AttributeProto* Add(const std::string& name, onnx::AttributeProto::AttributeType type);
  onnx::NodeProto* node_;
};

onnx::TensorProto OnnxFloats(const std::string& name, const std::vector<int64_t>& dims,
                             const std::vector<float>& values);
onnx::TensorProto OnnxInts(const std::string& name, const std::vector<int64_t>& dims,
                           const std::vector<int64_t>& values);
// Adds a node called like its first output to a graph's or a function's nodes.
OnnxNode AddOnnxNode(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes,
                     const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs);

class OnnxBuilder {
 public:
  explicit OnnxBuilder(int64_t opset = 17, int64_t ir_version = 8);
  // A leading dimension -1 becomes the symbol "N".
  OnnxBuilder& Input(const std::string& name, const std::vector<int64_t>& dims,
                     int type = onnx::TensorProto::FLOAT);
  OnnxBuilder& Output(const std::string& name, const std::vector<int64_t>& dims = {},
                      int type = onnx::TensorProto::FLOAT);
  // Seeded values of a weight, small and all different.
  OnnxBuilder& Weight(const std::string& name, const std::vector<int64_t>& dims);
  OnnxBuilder& Floats(const std::string& name, const std::vector<int64_t>& dims,
                      const std::vector<float>& values);
  OnnxBuilder& Ints(const std::string& name, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& values);
  OnnxNode Node(const std::string& op, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs);
  // An empty function of domain "local", which is imported.
  onnx::FunctionProto& Function(const std::string& name, const std::vector<std::string>& inputs,
                                const std::vector<std::string>& outputs);
  onnx::ModelProto& proto() { return model_; }
  std::string Serialize() const;
  // Writes the model to `path`; returns path. Checks that it worked.
  std::string Save(const std::string& path) const;

 private:
  onnx::ModelProto model_;
};

}  // namespace pipedream
