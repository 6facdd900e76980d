#include "common/graph/safetensors.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "common/base/file.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

std::string File(std::string header, std::string_view data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + std::string(data);
}

absl::StatusOr<std::map<std::string, Tensor>> Parse(const std::string& file) {
  auto owner = std::make_shared<std::string>(file);
  return ParseSafetensors(owner, std::as_bytes(std::span(*owner)));
}

TEST(Safetensors, ReadsAHandWrittenFile) {
  ASSERT_OK_AND_ASSIGN(
      auto tensors,
      Parse(
          File(R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("s":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})",
               std::string_view("\0\0\x80\x3f\0\0\0\xc0\x07", 9))));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors["x"].shape(), Shape({2}));
  EXPECT_EQ(tensors["x"].as<float>()[0], 1.0f);
  EXPECT_EQ(tensors["x"].as<float>()[1], -2.0f);
  EXPECT_EQ(tensors["s"].shape().rank(), 0);
  EXPECT_EQ(tensors["s"].as<uint8_t>()[0], 7);
}

TEST(Safetensors, WritesWidestFirstAndPadded) {
  std::map<std::string, Tensor> tensors;
  tensors["b"] = Tensor::FromVector<uint8_t>({3}, {1, 2, 3});
  tensors["c"] = Tensor::FromVector<float>({1}, {1.0f});
  std::string header = R"({"c":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(SerializeSafetensors(tensors),
            File(header, std::string_view("\0\0\x80\x3f\x01\x02\x03", 7)));
}

TEST(Safetensors, WhatIsWrittenReadsBackFromAFile) {
  std::string folder = testing::TempDir() + "/safetensors-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::string path = folder + "/w.safetensors";
  std::map<std::string, Tensor> tensors;
  tensors["w"] = Tensor::FromVector<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  tensors["empty"] = Tensor::FromVector<float>({0, 5}, {});
  tensors["steps"] = Tensor::FromVector<int64_t>({}, {int64_t{1} << 40});
  tensors["d"] = Tensor::FromVector<double>({1}, {0.1});
  ASSERT_OK(WriteSafetensors(path, tensors));
  ASSERT_OK_AND_ASSIGN(auto read, ReadSafetensors(path));
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(read[name].dtype(), tensor.dtype()) << name;
    EXPECT_EQ(read[name].shape(), tensor.shape()) << name;
    EXPECT_TRUE(std::ranges::equal(read[name].bytes(), tensor.bytes())) << name;
  }
  std::filesystem::remove_all(folder);
}

TEST(Safetensors, AMissingFileIsNotFoundAndOpaqueIsRefused) {
  EXPECT_THAT(ReadSafetensors("/nonexistent/x"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent/x")));
  std::byte byte{};
  std::map<std::string, Tensor> tensors{{"t", Tensor::Copy(DataType::kOpaque, {1}, {&byte, 1})}};
  EXPECT_THAT(WriteSafetensors("/nonexistent/x", tensors),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'t'")));
}

TEST(Safetensors, BrokenFilesAreRefusedWithTheCause) {
  struct Case {
    std::string name, file, message;
  };
  auto one = [](std::string dtype, std::string shape, std::string offsets, size_t bytes) {
    return File(fmt::format(R"({{"x":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape,
                            offsets),
                std::string(bytes, '\0'));
  };
  std::string deep(100000, '[');
  std::vector<Case> cases = {
      {"empty", "", "too few"},
      {"header past the end", std::string("\xff\0\0\0\0\0\0\0{}", 10), "does not fit"},
      {"huge header", std::string(8, '\xff') + "{}", "does not fit"},
      {"no json", File("{\"x\":", ""), "not a JSON object"},
      {"an array", File("[]", ""), "not a JSON object"},
      {"deeply nested", File(deep, ""), "header"},
      {"bad utf-8", File("{\"\xff\":1}", ""), "not a JSON object"},
      {"twice",
       File(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
            R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
            "0"),
       "twice"},
      {"not an object", File(R"({"x":3})", ""), "exactly"},
      {"unknown type", one("\"F8\"", "[1]", "[0,1]", 1), "F8"},
      {"type of wrong kind", one("7", "[1]", "[0,1]", 1), "7"},
      {"negative dimension", one("\"U8\"", "[-1]", "[0,1]", 1), "not a count"},
      {"fractional dimension", one("\"U8\"", "[1.5]", "[0,1]", 1), "not a count"},
      {"overflowing shape", one("\"F32\"", "[4611686018427387904,4]", "[0,0]", 0), "does not take"},
      {"size and shape disagree", one("\"F32\"", "[3]", "[0,8]", 8), "does not take the 8 bytes"},
      {"beyond the data", one("\"F32\"", "[2]", "[0,8]", 4), "not inside the 4 bytes"},
      {"reversed", one("\"F32\"", "[1]", "[4,0]", 4), "not inside"},
      {"three offsets", one("\"U8\"", "[1]", "[0,1,2]", 2), "two counts"},
      {"rest", one("\"U8\"", "[1]", "[0,1]", 5), "4 bytes after"},
      {"gap", one("\"U8\"", "[1]", "[1,2]", 2), "unused bytes before tensor 'x'"},
      {"misaligned",
       File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
            R"("x":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
            "00000"),
       "aligned"},
      {"overlap",
       File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
            "000000000000"),
       "'x' overlaps"},
  };
  for (const Case& c : cases)
    EXPECT_THAT(Parse(c.file), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.name;
}

TEST(Safetensors, ReadsThePythonWritersFiles) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  int files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(SharedDataDir() + "/oracle/models")) {
    if (entry.path().extension() != ".safetensors") continue;
    EXPECT_OK(ReadSafetensors(entry.path().string()));
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace pipedream
