#include "common/graph/onnx/node_attributes.h"

#include "common/base/status.h"
#include "common/graph/onnx/proto.h"

namespace pipedream::onnx_import {

const onnx::AttributeProto* NodeAttributes::Find(std::string_view name, int type) {
  auto found = node_.attributes.find(name);
  if (found == node_.attributes.end()) return nullptr;
  if (found->second->type() == type) return found->second;
  if (status_.ok())
    status_ = InvalidArgument("attribute '{}' has type {}, expected {}", name,
                              onnx::AttributeProto_AttributeType_Name(found->second->type()),
                              onnx::AttributeProto_AttributeType_Name(
                                  static_cast<onnx::AttributeProto_AttributeType>(type)));
  return nullptr;
}

int64_t NodeAttributes::Int(std::string_view name, int64_t fallback) {
  const auto* attribute = Find(name, onnx::AttributeProto::INT);
  return attribute ? attribute->i() : fallback;
}

double NodeAttributes::Float(std::string_view name, double fallback) {
  const auto* attribute = Find(name, onnx::AttributeProto::FLOAT);
  return attribute ? static_cast<double>(attribute->f()) : fallback;
}

std::string NodeAttributes::String(std::string_view name, std::string_view fallback) {
  const auto* attribute = Find(name, onnx::AttributeProto::STRING);
  return attribute ? attribute->s() : std::string(fallback);
}

std::vector<int64_t> NodeAttributes::Ints(std::string_view name, std::vector<int64_t> fallback) {
  const auto* attribute = Find(name, onnx::AttributeProto::INTS);
  if (!attribute) return fallback;
  return {attribute->ints().begin(), attribute->ints().end()};
}

const onnx::TensorProto* NodeAttributes::TensorValue(std::string_view name) {
  const auto* attribute = Find(name, onnx::AttributeProto::TENSOR);
  return attribute ? &attribute->t() : nullptr;
}

}  // namespace pipedream::onnx_import
