// Everything about a model that can be wrong before any operator is looked at: versions, names,
// order, types, tensors.
#pragma once

#include <absl/status/status.h>

#include <set>
#include <string>

#include "common/graph/onnx/tensor_data.h"

namespace google::protobuf {
template <typename T>
class RepeatedPtrField;
}
namespace onnx {
class ModelProto;
class NodeProto;
class OperatorSetIdProto;
}  // namespace onnx

namespace pipedream::onnx_import {

inline constexpr int kMinIrVersion = 3;
inline constexpr int kMaxIrVersion = 10;
inline constexpr int kMinOpset = 9;
inline constexpr int kMaxOpset = 21;

// "" for the default domain, whichever way it is written.
std::string NormalDomain(const std::string& domain);

// kInvalidArgument names the node or tensor and what is wrong with it.
absl::Status ValidateModel(const onnx::ModelProto& model, const TensorSource& source);

// Single assignment, every input made before it is read (a cycle is named as one), every domain
// imported. `available` holds the names that exist before the first node. `where` is "" for the
// main graph, else names the function.
absl::Status ValidateNodes(
    const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
    std::set<std::string> available,
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& opsets,
    const std::string& where);

// The version of the default domain, in [kMinOpset, kMaxOpset].
absl::Status ValidateOpsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& opsets,
    const std::string& where);

// How messages call a node: "node 'conv1' (Conv)".
std::string NodeLabel(const onnx::NodeProto& node);

}  // namespace pipedream::onnx_import
