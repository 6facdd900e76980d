// Damage in every place: an error or a model, never a crash.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "common/graph/model.h"
#include "tests/common/graph/onnx/onnx_test_util.h"
#include "tests/support/onnx_builder.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Loads `bytes` as a model, and binds it twice if that works. True if it loaded.
bool TryAll(const std::string& bytes) {
  std::string path = ScratchPath("damaged.onnx");
  std::ofstream(path, std::ios::binary) << bytes;
  // What a flipped dimension may ask for at most.
  auto model = Model::Load(path, {.max_tensor_bytes = 64 << 20});
  std::filesystem::remove(path);  // some file systems sync a file that is written over
  if (!model.ok()) {
    EXPECT_FALSE(model.status().message().empty());
    EXPECT_NE(model.status().code(), absl::StatusCode::kInternal) << model.status().ToString();
    return false;
  }
  for (int64_t batch : {1, 7})
    for (GraphForm form : {GraphForm::kTraining, GraphForm::kInference})
      (void)(*model)->Bind({.batch = batch, .form = form});
  return true;
}

// A small model that uses much of what the importer reads.
std::string Rich() {
  OnnxBuilder b;
  b.Input("x", {4, 3, 8, 8}).Output("y", {4, 5});
  b.Weight("w", {6, 3, 3, 3}).Weight("s", {6}).Weight("c", {6}).Weight("m", {6});
  b.Floats("v", {6}, {1, 1, 1, 1, 1, 1}).Ints("target", {2}, {4, -1}).Weight("fc", {5, 24});
  b.Floats("low", {}, {0}).Ints("pads", {8}, {0, 0, 1, 0, 0, 0, 1, 0});
  auto& f = b.Function("Act", {"a"}, {"r"});
  AddOnnxNode(f.mutable_node(), "HardSigmoid", {"a"}, {"r"})
      .Reference("alpha", "alpha", onnx::AttributeProto::FLOAT);
  b.Node("Pad", {"x", "pads"}, {"p"});
  b.Node("Conv", {"p", "w"}, {"h1"}).Ints("pads", {1, 1, 1, 1}).Ints("strides", {2, 2});
  b.Node("BatchNormalization", {"h1", "s", "c", "m", "v"}, {"h2"}).Float("epsilon", 1e-5f);
  b.Node("Act", {"h2"}, {"h3"}).Domain("local").Float("alpha", 0.3f);
  b.Node("Clip", {"h3", "low"}, {"h4"});
  b.Node("MaxPool", {"h4"}, {"h5"}).Ints("kernel_shape", {2, 2}).Ints("strides", {2, 2});
  b.Node("Shape", {"h5"}, {"shape"});
  b.Node("Slice", {"h5", "lo", "hi", "ax"}, {"h6"});
  b.Ints("lo", {1}, {0}).Ints("hi", {1}, {100}).Ints("ax", {1}, {1});
  b.Node("Reshape", {"h6", "target"}, {"h7"});
  b.Node("Gemm", {"h7", "fc"}, {"h8"}).Int("transB", 1);
  b.Node("Softmax", {"h8"}, {"y"});
  return b.Serialize();
}

TEST(DamagedFiles, TheUndamagedModelsLoad) { EXPECT_TRUE(TryAll(Rich())); }

TEST(DamagedFiles, TruncationNeverCrashes) {
  std::string bytes = Rich();
  for (size_t n = 0; n < bytes.size(); n += 13) EXPECT_FALSE(TryAll(bytes.substr(0, n))) << n;
  PD_SKIP_WITHOUT_SHARED_DATA();
  std::string mlp = ReadAll(SharedDataDir() + "/oracle/models/mlp-s0/model.onnx");
  ASSERT_GT(mlp.size(), 1000u);
  for (size_t n = 0; n < mlp.size(); n += 97) EXPECT_FALSE(TryAll(mlp.substr(0, n))) << n;
}

TEST(DamagedFiles, FlippedBytesNeverCrash) {
  unsigned seed = 1;
  if (const char* given = std::getenv("PIPEDREAM_TEST_SEED")) seed = std::atoi(given);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::string rich = Rich();
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = rich;
    int flips = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < flips; ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random() & 0xff);
    TryAll(bytes);
  }
}

// Strips of the fields that matter, not of weights: every byte once, all ones and a low bit.
TEST(DamagedFiles, EveryByteOfASmallModelCanBeWrong) {
  std::string rich = Rich();
  for (size_t at = 0; at < rich.size(); at += 3)
    for (char change : {'\x01', '\x80', '\xff'}) {
      std::string bytes = rich;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      TryAll(bytes);
    }
}

}  // namespace
}  // namespace pipedream
