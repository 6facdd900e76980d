// ONNX's own operator tests (Debian's libonnx-testdata): whatever the importer accepts must compute
// what they say. Inputs after the first become initializers, as weights and settings are in models.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/graph/onnx/tensor_data.h"
#include "tests/common/graph/onnx/onnx_test_util.h"

namespace pipedream {
namespace {

constexpr const char* kFolder = "/usr/share/libonnx-testdata/data/node";

template <typename Message>
bool ReadMessage(const std::filesystem::path& path, Message* message) {
  std::ifstream in(path, std::ios::binary);
  return in && message->ParseFromIstream(&in);
}

absl::StatusOr<ReferenceTensor> ValuesOf(const onnx::TensorProto& proto) {
  onnx_import::TensorSource source;
  source.max_tensor_bytes = 1 << 30;
  source.model = std::make_shared<onnx::ModelProto>();
  PD_ASSIGN_OR_RETURN(Tensor tensor, onnx_import::ReadTensor(proto, "test data", source));
  ReferenceTensor values;
  if (tensor.dtype() == DataType::kFloat32)
    for (float v : tensor.as<float>()) values.push_back(static_cast<double>(v));
  if (tensor.dtype() == DataType::kInt64)
    for (int64_t v : tensor.as<int64_t>()) values.push_back(static_cast<double>(v));
  if (tensor.dtype() == DataType::kBool)
    for (std::byte b : tensor.bytes()) values.push_back(b != std::byte{0} ? 1 : 0);
  return values;
}

enum class Outcome { kRefused, kCompared, kSkipped };

// Whether the first output fits; a difference fails the test.
Outcome Compare(const std::filesystem::path& folder) {
  OnnxBuilder b;
  if (!ReadMessage(folder / "model.onnx", &b.proto())) return Outcome::kSkipped;
  auto* graph = b.proto().mutable_graph();
  if (graph->input_size() == 0 || graph->output_size() == 0) return Outcome::kSkipped;
  onnx::TensorProto x, y;
  std::filesystem::path data = folder / "test_data_set_0";
  if (!ReadMessage(data / "input_0.pb", &x) || !ReadMessage(data / "output_0.pb", &y))
    return Outcome::kSkipped;
  for (int i = 1; i < graph->input_size(); ++i) {
    auto* tensor = graph->add_initializer();
    if (!ReadMessage(data / ("input_" + std::to_string(i) + ".pb"), tensor))
      return Outcome::kSkipped;
    tensor->set_name(graph->input(i).name());
  }
  while (graph->input_size() > 1) graph->mutable_input()->RemoveLast();
  auto model = LoadBuilt(b);
  if (!model.ok()) return Outcome::kRefused;
  auto bound = (*model)->Bind({.batch = x.dims(0), .form = GraphForm::kInference});
  EXPECT_OK(bound);
  auto given = ValuesOf(x), expected = ValuesOf(y);
  if (!bound.ok() || !given.ok() || !expected.ok()) return Outcome::kSkipped;
  auto values = RunReferenceGraph(*bound, {{(*model)->inputs()[0].name, *given}});
  EXPECT_OK(values);
  if (!values.ok()) return Outcome::kSkipped;
  const Value& out = bound->value(bound->outputs()[0]);
  EXPECT_EQ(out.shape.dims(), std::vector<int64_t>(y.dims().begin(), y.dims().end()));
  const ReferenceTensor& result = (*values)[bound->outputs()[0].value()];
  EXPECT_EQ(result.size(), expected->size());
  for (size_t i = 0; i < std::min(result.size(), expected->size()); ++i) {
    EXPECT_NEAR(result[i], (*expected)[i], 1e-4 * (1 + std::abs((*expected)[i])));
    if (testing::Test::HasFailure()) break;
  }
  return Outcome::kCompared;
}

TEST(Conformance, WhatIsAcceptedComputesWhatOnnxSays) {
  if (!std::filesystem::is_directory(kFolder)) GTEST_SKIP() << "no libonnx-testdata";
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    std::string name = entry.path().filename().string();
    // Random, or about training: not what a graph in inference form computes.
    if (name.starts_with("test_training_dropout") || name.starts_with("test_batchnorm")) continue;
    SCOPED_TRACE(name);
    if (Compare(entry.path()) == Outcome::kCompared) ++compared;
    if (HasFailure()) break;
  }
  RecordProperty("compared", compared);
  EXPECT_GE(compared, 150);
}

}  // namespace
}  // namespace pipedream
