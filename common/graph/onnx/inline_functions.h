// Calls of model-local functions replaced by the functions' bodies.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/graph/onnx/flat_model.h"

namespace pipedream::onnx_import {

struct InlinedNodes {
  std::vector<FlatNode> nodes;  // topological
  // Constant nodes of function bodies, by the name their output got here. Calls of one function
  // share its constants: one tensor in the file is one parameter.
  std::map<std::string, FunctionConstant> function_constants;
  std::vector<std::shared_ptr<const onnx::AttributeProto>> owned;  // defaults of attributes
};

inline constexpr int kMaxInlinedNodes = 200000;
inline constexpr int kMaxCallDepth = 64;

absl::StatusOr<InlinedNodes> InlineFunctions(const onnx::ModelProto& model);

}  // namespace pipedream::onnx_import
