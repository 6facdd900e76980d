// Files that must be refused, each with a message that says what is wrong with it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "common/graph/model.h"
#include "tests/common/graph/onnx/onnx_test_util.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Expected {
  absl::StatusCode code;
  std::string first;
  std::string second;
};

const std::map<std::string, Expected>& Table() {
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  static const std::map<std::string, Expected> table = {
      {"empty", {kBad, "empty (0 bytes)", "empty.onnx"}},
      {"truncated", {kBad, "truncated", "are left"}},
      {"noise", {kBad, "is not an ONNX model", "noise.onnx"}},
      {"not_onnx", {kBad, "text file", "not_onnx.onnx"}},
      {"unknown_op", {absl::StatusCode::kUnimplemented, "FancyActivation", "not supported"}},
      {"unknown_domain", {absl::StatusCode::kUnimplemented, "com.example", "custom domain"}},
      {"missing_input", {kBad, "'nowhere'", "nothing produces"}},
      {"cycle", {kBad, "cycle", "/blocks.0/blocks.0.1/Gemm"}},
      {"duplicate_output", {kBad, "written twice", "/blocks.0/blocks.0.1/Gemm"}},
      {"short_raw_data", {kBad, "raw_data has 8184 bytes", "need 8192"}},
      {"negative_dim", {kBad, "negative dimension -32", "blocks.0.1.weight"}},
      {"overflowing_dims", {kBad, "overflows", "blocks.0.1.weight"}},
      {"shape_mismatch", {kBad, "Gemm", "63"}},
      {"opset_9999", {kBad, "opset 9999", "9 to 21"}},
      {"no_opset", {kBad, "opset_import is missing", "operator set"}},
      {"external_parent", {kBad, "etc/passwd", "must lie in the model's folder"}},
      {"external_absolute", {kBad, "/etc/passwd", "must lie in the model's folder"}},
      {"external_missing", {absl::StatusCode::kNotFound, "nothing.bin", "does not exist"}},
      {"string_input", {kBad, "graph input 'x'", "string"}},
      {"no_outputs", {kBad, "no outputs", "no_outputs.onnx"}},
      {"deep_nesting", {kBad, "nested too deeply", "deep_nesting.onnx"}},
  };
  return table;
}

TEST(BadModels, AreRefusedWithAMessageThatNamesTheProblem) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  std::filesystem::path folder = SharedDataDir() + "/oracle/bad";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    SCOPED_TRACE(entry.path().filename().string());
    auto expected = Table().find(entry.path().stem().string());
    auto model = Model::Load(entry.path().string());
    ASSERT_FALSE(model.ok());
    if (expected == Table().end()) continue;  // another seed's file: refusing it is what counts
    EXPECT_THAT(model, StatusIs(expected->second.code, AllOf(HasSubstr(expected->second.first),
                                                             HasSubstr(expected->second.second))));
    ++files;
  }
  EXPECT_EQ(files, static_cast<int>(Table().size()));
}

TEST(BadModels, MissingFileAndFolderAreNamed) {
  EXPECT_THAT(Model::Load("/nowhere/model.onnx"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/model.onnx")));
  EXPECT_THAT(Model::Load(testing::TempDir()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("regular file")));
}

TEST(BadModels, SizeLimitsHold) {
  std::string path = ScratchPath("large.onnx");
  std::ofstream(path) << std::string(2000, 'x');
  EXPECT_THAT(Model::Load(path, {.max_model_bytes = 1000}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2000 bytes")));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace pipedream
