// Real exports: what the importer makes of them against what PyTorch's side says about them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "common/graph/model.h"
#include "common/graph/safetensors.h"
#include "tests/support/reference_ops.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

std::set<std::string> NamesOf(const Graph& graph, ValueKind kind) {
  std::set<std::string> names;
  for (const Value& value : graph.values())
    if (value.kind == kind) names.insert(value.name);
  return names;
}

struct OracleModel {
  std::string name;  // folder below oracle/
  std::string base;  // folder with case.json and data
};

std::vector<OracleModel> OracleModelCases() {
  std::vector<OracleModel> cases;
  for (std::string name : {"mlp", "mlp_ir3", "lenet", "alexnet", "vgg", "resnet", "mobilenet",
                           "inception", "gpt", "gpt_op13", "vit"})
    cases.push_back({"models/" + name + "-s0", "models/" + name + "-s0"});
  for (std::string variant :
       {"constant_nodes", "dead_code", "external_data", "float64", "float_data", "identity",
        "inputs_ir3", "local_functions", "loss_in_graph", "matmul_add", "odd_names", "opset18",
        "opset19", "opset21"})
    cases.push_back({"variants/mlp-s0__" + variant, "models/mlp-s0"});
  for (std::string variant : {"auto_pad", "inputs_ir3"})
    cases.push_back({"variants/lenet-s0__" + variant, "models/lenet-s0"});
  for (std::string variant : {"external_data", "gelu20", "identity", "opset21"})
    cases.push_back({"variants/gpt-s0__" + variant, "models/gpt-s0"});
  return cases;
}

class OracleModels : public testing::TestWithParam<OracleModel> {
 protected:
  void SetUp() override {
    PD_SKIP_WITHOUT_SHARED_DATA();
    root_ = SharedDataDir() + "/oracle/";
    case_ = ReadJson(root_ + GetParam().base + "/case.json");
  }
  std::string root_;
  nlohmann::json case_;
};

TEST_P(OracleModels, ParametersStatesAndShapesAreAsTheCaseSays) {
  ASSERT_OK_AND_ASSIGN(auto model, Model::Load(root_ + GetParam().name + "/model.onnx"));
  std::set<std::string> parameters = case_["parameters"];
  std::set<std::string> states;  // attention masks, the other kind, fold away
  for (std::string name : case_["non_trainable_initializers"])
    if (name.find(".running_") != std::string::npos) states.insert(name);
  ASSERT_GE(model->inputs().size(), 1u);
  EXPECT_EQ(model->inputs()[0].name, case_["inputs"][0]);
  EXPECT_EQ(model->output_names()[0], "logits");
  EXPECT_EQ(model->content_hash().size(), 64u);
  for (int64_t batch : {1, 8, 5})
    for (GraphForm form : {GraphForm::kTraining, GraphForm::kInference}) {
      ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({.batch = batch, .form = form}));
      EXPECT_EQ(NamesOf(graph, ValueKind::kParameter), parameters);
      EXPECT_EQ(NamesOf(graph, ValueKind::kState), states);
      const Value& logits = graph.value(graph.outputs()[0]);
      EXPECT_EQ(logits.name, "logits");
      EXPECT_EQ(logits.shape[0], batch);
      EXPECT_EQ(graph.value(graph.inputs()[0]).shape[0], batch);
    }
}

TEST_P(OracleModels, ForwardGivesPyTorchsOutputs) {
  ASSERT_OK_AND_ASSIGN(auto model, Model::Load(root_ + GetParam().name + "/model.onnx"));
  std::string base = root_ + GetParam().base;
  ASSERT_OK_AND_ASSIGN(auto data, ReadSafetensors(base + "/data.safetensors"));
  ASSERT_OK_AND_ASSIGN(auto step0, ReadSafetensors(base + "/step0.safetensors"));
  int64_t batch = case_["batch_size"];
  ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({.batch = batch}));
  std::map<std::string, ReferenceTensor> given;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    const Tensor& all = data.at(input.name);
    ReferenceTensor& rows = given[input.name];
    for (int64_t i = 0; i < input.shape.elements(); ++i)
      rows.push_back(input.dtype == DataType::kFloat32 ? static_cast<double>(all.as<float>()[i])
                                                       : static_cast<double>(all.as<int64_t>()[i]));
  }
  ASSERT_OK_AND_ASSIGN(auto values, RunReferenceGraph(graph, given));
  const ReferenceTensor& logits = values[graph.outputs()[0].value()];
  auto expected = step0.at("output/logits").as<float>();
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i)
    ASSERT_NEAR(logits[i], static_cast<double>(expected[i]), 1e-4 * (1 + std::abs(logits[i])))
        << "element " << i;
}

std::string CaseName(const testing::TestParamInfo<OracleModel>& info) {
  std::string name = std::filesystem::path(info.param.name).filename().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, OracleModels, testing::ValuesIn(OracleModelCases()), CaseName);

TEST(ImportOfDatasetModels, SmallImageModelsLoadAndBind) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  for (std::string name : {"digits_mlp", "digits_cnn", "fashion_bn", "fashion_lenet"}) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(auto model,
                         Model::Load(SharedDataDir() + "/datasets/models/" + name + ".onnx"));
    ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({.batch = 32}));
    EXPECT_EQ(graph.value(graph.outputs()[0]).shape, (Shape{32, 10}));
  }
}

int64_t ParameterElements(const Graph& graph) {
  int64_t sum = 0;
  for (const Value& value : graph.values())
    if (value.kind == ValueKind::kParameter) sum += value.shape.elements();
  return sum;
}

// The published sizes of these networks: 25,557,032 for ResNet-50 (torchvision), 60,965,224 for the
// two-group AlexNet of Caffe, 6,998,552 for its GoogLeNet and 1,235,496 for SqueezeNet 1.1.
TEST(ImportOfPublicModels, WeightsThatWereTakenOutAreParameters) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  std::string folder = SharedDataDir() + "/onnx_public/";
  struct {
    std::string file, output;
    int64_t elements;
  } cases[] = {{"light_bvlc_alexnet", "prob_1", 60965224},
               {"light_resnet50", "gpu_0/softmax_1", 25557032},
               {"light_inception_v1", "prob_1", 6998552},
               {"light_squeezenet", "softmaxout_1", 1235496}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.file);
    ASSERT_OK_AND_ASSIGN(auto model, Model::Load(folder + c.file + ".onnx"));
    EXPECT_THAT(testing::PrintToString(model->warnings()), HasSubstr("ConstantOfShape"));
    for (int64_t batch : {1, 8}) {
      ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({.batch = batch}));
      EXPECT_EQ(ParameterElements(graph), c.elements);
      EXPECT_EQ(graph.value(graph.outputs()[0]).name, c.output);
      // SqueezeNet ends in a pooled plane of one element.
      EXPECT_EQ(graph.value(graph.outputs()[0]).shape.elements(), batch * 1000);
      EXPECT_EQ(graph.value(graph.outputs()[0]).shape[1], 1000);
    }
  }
}

TEST(ImportOfPublicModels, OldOpsetsAndForeignDomainsAreNamed) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  std::string folder = SharedDataDir() + "/onnx_public/";
  EXPECT_THAT(Model::Load(folder + "opt-mnist.onnx"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("opset 8")));
  EXPECT_THAT(Model::Load(SharedDataDir() + "/oracle/models/lstm_folded-s0/model.onnx"),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("LSTM (opset 17)")));
  EXPECT_FALSE(Model::Load(folder + "test_adam.onnx").ok());
}

TEST(ImportOfPublicModels, LossOverPositionsMovesTheClassAxisLast) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  ASSERT_OK_AND_ASSIGN(auto model,
                       Model::Load(SharedDataDir() + "/onnx_public/test_sce_mean_3d.onnx"));
  ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({.batch = 3}));
  ASSERT_EQ(graph.node_count(), 2);
  EXPECT_EQ(graph.nodes()[0].op, "Transpose");
  EXPECT_EQ(graph.nodes()[1].op, "CrossEntropy");
  EXPECT_EQ(graph.value(graph.outputs()[0]).shape, Shape());
}

}  // namespace
}  // namespace pipedream
