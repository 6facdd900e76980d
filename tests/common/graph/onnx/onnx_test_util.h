// Loading models that a test has just built.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/graph/model.h"
#include "tests/support/onnx_builder.h"
#include "tests/support/reference_ops.h"
#include "tests/support/status_matchers.h"

namespace pipedream {

// A file name of this process only; tests run side by side.
inline std::string ScratchPath(const std::string& name) {
  return testing::TempDir() + "/" + std::to_string(getpid()) + "-" + name;
}

inline absl::StatusOr<std::shared_ptr<const Model>> LoadBuilt(const OnnxBuilder& builder) {
  std::string path = ScratchPath("built.onnx");
  auto model = Model::Load(builder.Save(path));
  std::filesystem::remove(path);
  return model;
}

inline absl::StatusOr<Graph> BindBuilt(const OnnxBuilder& builder, const BindOptions& options) {
  PD_ASSIGN_OR_RETURN(auto model, LoadBuilt(builder));
  return model->Bind(options);
}

inline std::set<std::string> ValueNames(const Graph& graph, ValueKind kind) {
  std::set<std::string> names;
  for (const Value& value : graph.values())
    if (value.kind == kind) names.insert(value.name);
  return names;
}

inline std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) ops.push_back(node.op);
  return ops;
}

// Output 0 with input "x" counting 0, 0.1, 0.2 ..
inline absl::StatusOr<ReferenceTensor> RunOnCounting(const Graph& graph) {
  std::map<std::string, ReferenceTensor> given;
  const Value& x = graph.value(graph.inputs()[0]);
  for (int64_t i = 0; i < x.shape.elements(); ++i)
    given[x.name].push_back(0.1 * static_cast<double>(i));
  PD_ASSIGN_OR_RETURN(auto values, RunReferenceGraph(graph, given));
  return values[graph.outputs()[0].value()];
}

}  // namespace pipedream
