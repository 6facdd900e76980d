#include "common/graph/onnx/inference_form.h"

#include <set>
#include <string>

#include "common/graph/onnx/proto.h"
#include "common/graph/onnx/validate.h"

namespace pipedream::onnx_import {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

void CollectReads(const onnx::GraphProto& graph, std::set<std::string>* reads);

void CollectReads(const Nodes& nodes, std::set<std::string>* reads) {
  for (const auto& node : nodes) {
    reads->insert(node.input().begin(), node.input().end());
    for (const auto& attribute : node.attribute())  // subgraphs see outer names; depth is bounded
      if (attribute.has_g()) CollectReads(attribute.g(), reads);
  }
}

void CollectReads(const onnx::GraphProto& graph, std::set<std::string>* reads) {
  CollectReads(graph.node(), reads);
  for (const auto& output : graph.output()) reads->insert(output.name());
}

void RemoveAttribute(onnx::NodeProto* node, const std::string& name) {
  for (int i = node->attribute_size(); i-- > 0;)
    if (node->attribute(i).name() == name) node->mutable_attribute()->DeleteSubrange(i, 1);
}

void Convert(Nodes* nodes, const std::set<std::string>& reads, std::set<std::string>* removed) {
  for (auto& node : *nodes) {
    bool batch_norm = node.op_type() == "BatchNormalization", dropout = node.op_type() == "Dropout";
    if (!NormalDomain(node.domain()).empty() || (!batch_norm && !dropout)) continue;
    bool extra_read = false;
    for (int i = 1; i < node.output_size(); ++i)
      extra_read = extra_read || (!node.output(i).empty() && reads.contains(node.output(i)));
    if (extra_read) continue;
    while (node.output_size() > 1) {
      removed->insert(node.output(node.output_size() - 1));
      node.mutable_output()->RemoveLast();
    }
    if (batch_norm) RemoveAttribute(&node, "training_mode");  // the default is 0
    // Without its third input, training_mode, Dropout does nothing.
    if (dropout)
      while (node.input_size() > 2) node.mutable_input()->RemoveLast();
  }
}

}  // namespace

void ToInferenceForm(onnx::ModelProto* model) {
  std::set<std::string> reads, removed;
  CollectReads(model->graph(), &reads);
  Convert(model->mutable_graph()->mutable_node(), reads, &removed);
  auto* infos = model->mutable_graph()->mutable_value_info();
  for (int i = infos->size(); i-- > 0;)
    if (removed.contains((*infos)[i].name())) infos->DeleteSubrange(i, 1);
  for (auto& function : *model->mutable_functions()) {
    std::set<std::string> inner(function.output().begin(), function.output().end());
    CollectReads(function.node(), &inner);
    Convert(function.mutable_node(), inner, &removed);
  }
}

}  // namespace pipedream::onnx_import
