// Which of a model's tensors train, which are running statistics, and which are plain constants.
#pragma once

#include <absl/status/statusor.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/onnx/flat_model.h"

namespace pipedream::onnx_import {

// How a node reads an input.
enum class InputRole {
  kData,     // an initializer here trains
  kWeight,   // and so does a Constant of more than one element
  kState,    // running statistics
  kSetting,  // a limit, an axis, a ratio: never trains
  kPass,     // as output 0 is read: the node only moves elements
};
InputRole RoleOf(const FlatNode& node, size_t input);

struct WeightRoles {
  std::set<std::string> trains;
  std::set<std::string> states;
  std::vector<std::string> scalars;  // rank-0 float initializers read as data, left as constants
};

// Shell patterns: `train` adds, `freeze` removes; a tensor that both match trains, so that freeze
// "*" with train "head.*" trains the head. Running statistics never train. kInvalidArgument for a
// pattern that matches no float tensor.
absl::StatusOr<WeightRoles> FindWeights(const FlatModel& model,
                                        const std::vector<std::string>& train,
                                        const std::vector<std::string>& freeze);

}  // namespace pipedream::onnx_import
