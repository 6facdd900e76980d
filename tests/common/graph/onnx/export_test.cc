#include <fmt/format.h>
#include <gtest/gtest.h>
#include <onnx/checker.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "common/graph/model.h"
#include "common/graph/onnx/export.h"
#include "common/graph/onnx/onnx_model.h"
#include "tests/support/onnx_builder.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

class Export : public testing::Test {
 protected:
  void SetUp() override {
    folder = testing::TempDir() + "/export-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string folder;
};

onnx::ModelProto ReadProto(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromIstream(&in));
  return model;
}

// The weights and states, each element moved by a half: exact in float32 for small weights.
std::map<std::string, Tensor> Changed(const Graph& graph) {
  std::map<std::string, Tensor> out;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::kParameter && value.kind != ValueKind::kState) continue;
    std::vector<float> data(value.data.as<float>().begin(), value.data.as<float>().end());
    for (float& v : data) v += 0.5f;
    out[value.name] = Tensor::FromVector(value.shape, data);
  }
  return out;
}

void ExpectHolds(const Graph& graph, const std::map<std::string, Tensor>& expected) {
  size_t found = 0;
  for (const Value& value : graph.values()) {
    auto wanted = expected.find(value.name);
    if (wanted == expected.end()) continue;
    ++found;
    ASSERT_EQ(value.shape, wanted->second.shape()) << value.name;
    auto a = value.data.as<float>(), b = wanted->second.as<float>();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin())) << value.name;
  }
  EXPECT_EQ(found, expected.size());
}

bool CheckerKnows(const onnx::ModelProto& model) {
  return model.ir_version() <= 8 && model.opset_import(0).version() <= 17;
}

void ExpectInferenceForm(const onnx::ModelProto& model) {
  for (const auto& node : model.graph().node()) {
    if (node.op_type() != "BatchNormalization" && node.op_type() != "Dropout") continue;
    EXPECT_EQ(node.output_size(), 1) << node.name();
    EXPECT_TRUE(node.op_type() != "Dropout" || node.input_size() <= 2);
    for (const auto& attribute : node.attribute()) EXPECT_NE(attribute.name(), "training_mode");
  }
}

TEST_F(Export, EveryOracleModelComesBackWithItsNewWeights) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  for (std::string name :
       {"models/mlp-s0", "models/mlp_ir3-s0", "models/lenet-s0", "models/alexnet-s0",
        "models/vgg-s0", "models/resnet-s0", "models/mobilenet-s0",
        "variants/mlp-s0__constant_nodes", "variants/mlp-s0__external_data",
        "variants/mlp-s0__float64", "variants/mlp-s0__float_data", "variants/mlp-s0__identity",
        "variants/mlp-s0__inputs_ir3", "variants/mlp-s0__local_functions",
        "variants/mlp-s0__loss_in_graph", "variants/mlp-s0__matmul_add",
        "variants/mlp-s0__odd_names", "variants/mlp-s0__opset21"}) {
    SCOPED_TRACE(name);
    std::string path = SharedDataDir() + "/oracle/" + name + "/model.onnx";
    ASSERT_OK_AND_ASSIGN(auto model, Model::Load(path));
    ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({.batch = 8}));
    auto changed = Changed(graph);
    std::string out = folder + "/" + std::filesystem::path(name).filename().string() + ".onnx";
    ASSERT_OK(model->Export(changed, out));
    ASSERT_OK_AND_ASSIGN(auto again, Model::Load(out));
    ASSERT_OK_AND_ASSIGN(Graph graph2, again->Bind({.batch = 8}));
    ExpectHolds(graph2, changed);
    EXPECT_EQ(graph.node_count(), graph2.node_count());
    onnx::ModelProto before = ReadProto(path), after = ReadProto(out);
    ExpectInferenceForm(after);
    ASSERT_EQ(before.graph().initializer_size(), after.graph().initializer_size());
    for (int i = 0; i < before.graph().initializer_size(); ++i) {
      EXPECT_EQ(before.graph().initializer(i).name(), after.graph().initializer(i).name());
      EXPECT_EQ(before.graph().initializer(i).data_type(),
                after.graph().initializer(i).data_type());
    }
    EXPECT_EQ(before.graph().input(0).SerializeAsString(),
              after.graph().input(0).SerializeAsString());
    if (!CheckerKnows(after)) continue;
    EXPECT_NO_THROW(onnx::checker::check_model(out));
  }
}

OnnxBuilder Linear() {
  OnnxBuilder b;
  b.Input("x", {-1, 3}).Output("y", {-1, 2}).Weight("w", {3, 2}).Weight("b", {2});
  b.Node("Gemm", {"x", "w", "b"}, {"y"});
  b.proto().set_doc_string("a model of mine");
  return b;
}

TEST_F(Export, WithoutChangesAnInferenceModelIsByteForByteTheSame) {
  std::string in = Linear().Save(folder + "/in.onnx");
  ASSERT_OK_AND_ASSIGN(auto model, Model::Load(in));
  ASSERT_OK(model->Export({}, folder + "/out.onnx"));
  EXPECT_EQ(ReadProto(in).SerializeAsString(), ReadProto(folder + "/out.onnx").SerializeAsString());
}

TEST_F(Export, UnknownNamesAndWrongShapesAreRefusedAndNothingIsWritten) {
  ASSERT_OK_AND_ASSIGN(auto model, Model::Load(Linear().Save(folder + "/in.onnx")));
  std::string out = folder + "/out.onnx";
  Tensor two = Tensor::FromVector<float>({2}, {1, 2});
  EXPECT_THAT(model->Export({{"nope", two}}, out),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'nope'")));
  EXPECT_THAT(model->Export({{"w", two}}, out),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[3, 2]")));
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_FALSE(model->Export({{"b", two}}, folder + "/no/such/folder.onnx").ok());
}

TEST_F(Export, LargeModelsPutTheirWeightsBeside) {
  OnnxBuilder b;
  b.Input("x", {-1, 64}).Output("y", {-1, 64}).Weight("w", {64, 64}).Weight("b", {64});
  b.Node("Gemm", {"x", "w", "b"}, {"y"});
  ASSERT_OK_AND_ASSIGN(auto model, Model::Load(b.Save(folder + "/in.onnx")));
  ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({}));
  auto changed = Changed(graph);
  onnx_import::ExternalFiles files(folder);
  onnx_import::TensorSource source{std::make_shared<onnx::ModelProto>(b.proto()), &files, 1 << 30};
  ASSERT_OK_AND_ASSIGN(auto flat, onnx_import::Flatten(source));
  std::string out = folder + "/big.onnx";
  ASSERT_OK(onnx_import::ExportModel(flat, changed, source, out, {.max_inline_bytes = 1000}));
  EXPECT_EQ(std::filesystem::file_size(out + ".data"), 64u * 64 * 4);  // b is small and stays
  ASSERT_OK_AND_ASSIGN(auto again, Model::Load(out));
  ASSERT_OK_AND_ASSIGN(Graph graph2, again->Bind({}));
  ExpectHolds(graph2, changed);
  EXPECT_NO_THROW(onnx::checker::check_model(out));
  EXPECT_NE(again->content_hash(), model->content_hash());
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos);
}

TEST_F(Export, ContentHashCoversExternalData) {
  OnnxBuilder b = Linear();
  auto* w = b.proto().mutable_graph()->mutable_initializer(0);
  std::string bytes = w->raw_data();
  w->clear_raw_data();
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* entry = w->add_external_data();
  entry->set_key("location");
  entry->set_value("w.bin");
  std::ofstream(folder + "/w.bin") << bytes;
  std::string path = b.Save(folder + "/m.onnx");
  ASSERT_OK_AND_ASSIGN(auto one, Model::Load(path));
  bytes[0] ^= 1;
  std::filesystem::remove(folder + "/w.bin");
  std::ofstream(folder + "/w.bin") << bytes;
  ASSERT_OK_AND_ASSIGN(auto two, Model::Load(path));
  EXPECT_NE(one->content_hash(), two->content_hash());
}

TEST_F(Export, WeightsMadeByConstantOfShapeBecomeConstants) {
  OnnxBuilder b(9, 4);
  b.Input("x", {1, 3}).Output("y", {1, 2}).Ints("shape", {2}, {3, 2});
  b.Node("ConstantOfShape", {"shape"}, {"w"}).TensorValue("value", OnnxFloats("", {1}, {0.25f}));
  b.Node("MatMul", {"x", "w"}, {"y"});
  ASSERT_OK_AND_ASSIGN(auto model, Model::Load(b.Save(folder + "/in.onnx")));
  ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({}));
  EXPECT_EQ(graph.value(graph.FindValue("w")).data.as<float>()[5], 0.25f);
  auto changed = Changed(graph);
  ASSERT_OK(model->Export(changed, folder + "/out.onnx"));
  ASSERT_OK_AND_ASSIGN(auto again, Model::Load(folder + "/out.onnx"));
  ASSERT_OK_AND_ASSIGN(Graph graph2, again->Bind({}));
  ExpectHolds(graph2, changed);
}

// The body's Constant is one tensor in the file, so two calls share one parameter.
TEST_F(Export, ConstantsInsideFunctionsTrainAndAreWrittenThere) {
  OnnxBuilder b;
  b.Input("x", {-1, 2}).Output("y", {-1, 2});
  auto& f = b.Function("Twice", {"a"}, {"b"});
  AddOnnxNode(f.mutable_node(), "Constant", {}, {"w"})
      .TensorValue("value", OnnxFloats("", {2, 2}, {1, 2, 3, 4}));
  AddOnnxNode(f.mutable_node(), "MatMul", {"a", "w"}, {"b"});
  b.Node("Twice", {"x"}, {"h"}).Domain("local");
  b.Node("Twice", {"h"}, {"y"}).Domain("local");
  ASSERT_OK_AND_ASSIGN(auto model, Model::Load(b.Save(folder + "/in.onnx")));
  ASSERT_OK_AND_ASSIGN(Graph graph, model->Bind({}));
  auto changed = Changed(graph);
  ASSERT_EQ(changed.size(), 1u);
  ASSERT_OK(model->Export(changed, folder + "/out.onnx"));
  ASSERT_OK_AND_ASSIGN(auto again, Model::Load(folder + "/out.onnx"));
  ASSERT_OK_AND_ASSIGN(Graph graph2, again->Bind({}));
  ExpectHolds(graph2, changed);
}

}  // namespace
}  // namespace pipedream
