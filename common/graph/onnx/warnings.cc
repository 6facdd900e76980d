#include <fmt/format.h>

#include <map>
#include <set>

#include "common/graph/onnx/onnx_model.h"
#include "common/graph/onnx/proto.h"

namespace pipedream::onnx_import {
namespace {

// "'a', 'b' and 3 more"
std::string Names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 5; ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  if (names.size() > 5) text += fmt::format(" and {} more", names.size() - 5);
  return text;
}

void WarnTied(const FlatModel& model, const WeightRoles& roles, std::vector<std::string>* out) {
  std::map<std::string, std::string> origin;  // Identity output -> constant
  std::map<std::string, int> copies;
  for (const FlatNode& node : model.nodes) {
    if (node.op != "Identity" || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
    auto behind = origin.find(node.inputs[0]);
    std::string source = behind == origin.end() ? node.inputs[0] : behind->second;
    if (!roles.trains.contains(source)) continue;
    origin[node.outputs[0]] = source;
    ++copies[source];
  }
  std::vector<std::string> tied;
  for (const auto& [name, count] : copies)
    if (count > 1) tied.push_back(name);
  if (!tied.empty())
    out->push_back(fmt::format(
        "{} read through several Identity nodes: the copies are tied and train as one weight",
        Names(tied)));
}

void WarnTypes(const FlatModel& model, std::vector<std::string>* out) {
  std::vector<std::string> doubles, narrow;
  for (const FlatInput& input : model.inputs) {
    if (input.onnx_type == onnx::TensorProto::DOUBLE) doubles.push_back(input.name);
    if (input.dtype == DataType::kInt64 && input.onnx_type != onnx::TensorProto::INT64)
      narrow.push_back(input.name);
  }
  int weights = 0;
  for (const auto& [name, constant] : model.constants)
    weights += constant.onnx_type == onnx::TensorProto::DOUBLE;
  if (!doubles.empty() || weights > 0)
    out->push_back(
        fmt::format("float64 is computed as float32 ({} inputs, {} weights); the export "
                    "has float64 again",
                    doubles.size(), weights));
  if (!narrow.empty())
    out->push_back(fmt::format("integer inputs are fed as int64: {}", Names(narrow)));
}

void WarnForms(const FlatModel& model, std::vector<std::string>* out) {
  int batch_norms = 0, dropouts = 0;
  for (const FlatNode& node : model.nodes) {
    if (node.op == "BatchNormalization") {
      auto mode = node.attributes.find("training_mode");
      bool training = node.opset < 14 ? node.outputs.size() > 1
                                      : mode != node.attributes.end() && mode->second->i() != 0;
      batch_norms += !training;
    }
    if (node.op == "Dropout") dropouts += node.inputs.size() < 3;
  }
  if (batch_norms + dropouts > 0)
    out->push_back(
        fmt::format("exported for inference: {} BatchNormalization and {} Dropout nodes "
                    "are switched to training, and back on export",
                    batch_norms, dropouts));
  for (const FlatOutput& output : model.outputs)
    for (const FlatNode& node : model.nodes)
      if (node.op == "Softmax" && !node.outputs.empty() && node.outputs[0] == output.name)
        out->push_back(
            fmt::format("output '{}' is a Softmax; the loss cross_entropy expects the "
                        "logits before it",
                        output.name));
}

}  // namespace

std::vector<std::string> CollectWarnings(const FlatModel& model, const WeightRoles& roles) {
  std::vector<std::string> out;
  WarnTied(model, roles, &out);
  WarnTypes(model, &out);
  std::vector<std::string> filled;
  for (const auto& [name, constant] : model.constants)
    if (constant.source == FlatConstant::Source::kFilled && roles.trains.contains(name))
      filled.push_back(name);
  if (!filled.empty())
    out.push_back(
        fmt::format("the model has no values for {} weights (made by ConstantOfShape): {}; "
                    "every element starts as the same number",
                    filled.size(), Names(filled)));
  if (!roles.scalars.empty())
    out.push_back(
        fmt::format("scalar initializers are taken as constants: {}; name them in a train "
                    "pattern to train them",
                    Names(roles.scalars)));
  WarnForms(model, &out);
  if (model.dropped_nodes > 0)
    out.push_back(fmt::format("{} nodes lead to no output and are ignored", model.dropped_nodes));
  return out;
}

}  // namespace pipedream::onnx_import
