#include "common/graph/onnx/weights.h"

#include <fnmatch.h>

#include <map>

#include "common/base/status.h"

namespace pipedream::onnx_import {
namespace {

struct Uses {
  bool data = false;
  bool weight = false;
  bool state = false;
  void Merge(const Uses& other) {
    data = data || other.data;
    weight = weight || other.weight;
    state = state || other.state;
  }
};

// How each tensor is read in the end, through nodes that only move elements.
std::map<std::string, Uses> FindUses(const FlatModel& model) {
  std::map<std::string, Uses> uses;
  for (auto node = model.nodes.rbegin(); node != model.nodes.rend(); ++node) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (node->inputs[i].empty()) continue;
      Uses use;
      InputRole role = RoleOf(*node, i);
      if (role == InputRole::kPass && !node->outputs.empty()) use = uses[node->outputs[0]];
      use.data = use.data || role == InputRole::kData || role == InputRole::kWeight;
      use.weight = use.weight || role == InputRole::kWeight;
      use.state = use.state || role == InputRole::kState;
      uses[node->inputs[i]].Merge(use);
    }
  }
  return uses;
}

bool TrainsByRule(const FlatConstant& constant, const Uses& uses) {
  int64_t elements = constant.value.shape().elements();
  if (constant.value.shape().rank() == 0 || elements == 0) return false;
  if (constant.source == FlatConstant::Source::kInitializer) return uses.data;
  return uses.weight && elements > 1;
}

bool MatchesAny(const std::vector<std::string>& patterns, const std::string& name,
                std::vector<bool>* matched) {
  bool any = false;
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (fnmatch(patterns[i].c_str(), name.c_str(), 0) != 0) continue;
    (*matched)[i] = true;
    any = true;
  }
  return any;
}

absl::Status CheckAllMatched(const std::vector<std::string>& patterns,
                             const std::vector<bool>& matched, std::string_view which) {
  for (size_t i = 0; i < patterns.size(); ++i)
    if (!matched[i])
      return InvalidArgument("{} pattern '{}' matches no float tensor of the model", which,
                             patterns[i]);
  return absl::OkStatus();
}

}  // namespace

InputRole RoleOf(const FlatNode& node, size_t input) {
  static const std::set<std::string_view> kAllWeights = {"Conv", "Gemm", "MatMul",
                                                         "Add",  "Sum",  "ConvTranspose"};
  static const std::set<std::string_view> kPasses = {"Identity", "Transpose", "Reshape",
                                                     "Flatten",  "Squeeze",   "Unsqueeze",
                                                     "Cast",     "Expand",    "Slice"};
  // Operators whose inputs after the first only say how.
  static const std::set<std::string_view> kFirstIsData = {"Clip",
                                                          "Pad",
                                                          "Dropout",
                                                          "ReduceMean",
                                                          "ReduceSum",
                                                          "Resize",
                                                          "Upsample",
                                                          "Pow",
                                                          "Tile",
                                                          "Split",
                                                          "Gather",
                                                          "TopK",
                                                          "SoftmaxCrossEntropyLoss"};
  static const std::set<std::string_view> kNoData = {
      "Shape",   "Size",        "ConstantOfShape", "Range", "Equal", "Less",
      "Greater", "LessOrEqual", "GreaterOrEqual",  "And",   "Or",    "Not",
      "OneHot",  "NonZero",     "ArgMax",          "ArgMin"};
  const std::string& op = node.op;
  if (!node.domain.empty()) return InputRole::kData;
  if (kAllWeights.contains(op)) return InputRole::kWeight;
  if (kPasses.contains(op)) return input == 0 ? InputRole::kPass : InputRole::kSetting;
  if (kFirstIsData.contains(op)) return input == 0 ? InputRole::kData : InputRole::kSetting;
  if (kNoData.contains(op)) return InputRole::kSetting;
  if (op == "Where") return input == 0 ? InputRole::kSetting : InputRole::kData;
  if (op == "BatchNormalization") {
    if (input >= 3) return InputRole::kState;
    return input == 0 ? InputRole::kData : InputRole::kWeight;
  }
  if (op == "LayerNormalization") return input == 0 ? InputRole::kData : InputRole::kWeight;
  return InputRole::kData;
}

absl::StatusOr<WeightRoles> FindWeights(const FlatModel& model,
                                        const std::vector<std::string>& train,
                                        const std::vector<std::string>& freeze) {
  std::map<std::string, Uses> uses = FindUses(model);
  std::vector<bool> train_matched(train.size()), freeze_matched(freeze.size());
  WeightRoles roles;
  for (const auto& [name, constant] : model.constants) {
    if (constant.value.empty() || constant.value.dtype() != DataType::kFloat32) continue;
    const Uses& use = uses[name];
    bool wanted = MatchesAny(train, name, &train_matched);
    bool unwanted = MatchesAny(freeze, name, &freeze_matched);
    if (use.state) {
      roles.states.insert(name);
      continue;
    }
    bool by_rule = TrainsByRule(constant, use);
    if (wanted || (by_rule && !unwanted)) roles.trains.insert(name);
    if (!by_rule && !wanted && !unwanted && use.data && constant.value.shape().rank() == 0 &&
        constant.source == FlatConstant::Source::kInitializer)
      roles.scalars.push_back(name);
  }
  PD_RETURN_IF_ERROR(CheckAllMatched(train, train_matched, "train"));
  PD_RETURN_IF_ERROR(CheckAllMatched(freeze, freeze_matched, "freeze"));
  return roles;
}

}  // namespace pipedream::onnx_import
