#include "common/data/dataset.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <bit>
#include <filesystem>
#include <fstream>

#include "common/data/column.h"
#include "common/data/shape_fit.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + "_data";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::string WriteGzip(const std::string& name, const std::string& content) {
    const std::string path = folder_ + "/" + name;
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path;
  }
  ColumnSpec Spec(const std::string& name, const std::string& path) {
    ColumnSpec spec;
    spec.name = name;
    spec.path = path;
    return spec;
  }
  std::string folder_;
};

std::string Big32(uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}
std::string Idx(uint8_t type, const std::vector<uint32_t>& dims, const std::string& payload) {
  std::string out = {0, 0, static_cast<char>(type), static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) out += Big32(dim);
  return out + payload;
}
template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
std::string NpyV1(const std::string& dict, const std::string& payload) {
  std::string out = "\x93NUMPY";
  out += '\x01';
  out += '\0';
  out += static_cast<char>(dict.size() & 255);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict + payload;
}
std::string Dict(const std::string& descr, const std::string& shape,
                 const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }  \n";
}

template <typename T>
std::vector<T> GatherAll(const Column& column, std::vector<int64_t> rows) {
  std::vector<T> out(rows.size() * column.sample_shape().elements());
  column.Gather(rows, DataTypeOf<T>(), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST_F(DatasetTest, ReadsIdxOfEveryElementTypeBigEndian) {
  // -2 and 300 (or 44 = 300 mod 256 where 300 does not fit), by hand.
  struct Case {
    uint8_t type;
    std::string payload;
    DataType stored;
    std::vector<float> want;
  };
  const std::vector<Case> cases = {
      {0x08, std::string("\xfe\x2c", 2), DataType::kUint8, {254, 44}},
      {0x09, std::string("\xfe\x2c", 2), DataType::kInt8, {-2, 44}},
      {0x0B, std::string("\xff\xfe\x01\x2c", 4), DataType::kInt32, {-2, 300}},
      {0x0C, std::string("\xff\xff\xff\xfe\x00\x00\x01\x2c", 8), DataType::kInt32, {-2, 300}},
      // IEEE: -2 = c0000000, 300 = 43960000.
      {0x0D, std::string("\xc0\x00\x00\x00\x43\x96\x00\x00", 8), DataType::kFloat32, {-2, 300}},
      // -2 = c000000000000000, 300 = 4072c00000000000.
      {0x0E,
       std::string("\xc0\x00\x00\x00\x00\x00\x00\x00\x40\x72\xc0\x00\x00\x00\x00\x00", 16),
       DataType::kFloat64,
       {-2, 300}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(static_cast<int>(c.type));
    ASSERT_OK_AND_ASSIGN(auto column,
                         OpenColumn(Spec("x", Write("a.idx", Idx(c.type, {2}, c.payload)))));
    EXPECT_EQ(column->stored_type(), c.stored);
    EXPECT_EQ(column->rows(), 2);
    EXPECT_EQ(column->sample_shape(), Shape{});
    EXPECT_EQ(GatherAll<float>(*column, {0, 1}), c.want);
  }
}

TEST_F(DatasetTest, GathersRowsInTheGivenOrderScaledOnlyForFloats) {
  ColumnSpec spec = Spec("x", Write("a", Idx(8, {3, 2}, std::string("\0\1\2\3\4\5", 6))));
  spec.scale = 0.5;
  spec.offset = 1;
  ASSERT_OK_AND_ASSIGN(auto column, OpenColumn(spec));
  EXPECT_EQ(column->sample_shape(), (Shape{2}));
  EXPECT_EQ(GatherAll<float>(*column, {2, 0, 2}), (std::vector<float>{1.5, 2, -0.5, 0, 1.5, 2}));
  EXPECT_EQ(GatherAll<int64_t>(*column, {1}), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(GatherAll<int32_t>(*column, {1}), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(column->Range(), (std::pair<double, double>{-0.5, 2}));
}

TEST_F(DatasetTest, ReadsGzip) {
  const std::string path = WriteGzip("a.idx.gz", Idx(8, {2}, "\x05\x07"));
  ASSERT_OK_AND_ASSIGN(auto column, OpenColumn(Spec("y", path)));
  EXPECT_EQ(GatherAll<int64_t>(*column, {0, 1}), (std::vector<int64_t>{5, 7}));
}

TEST_F(DatasetTest, LimitKeepsTheFirstRows) {
  ColumnSpec spec = Spec("y", Write("a", Idx(8, {3}, "\x05\x07\x09")));
  spec.limit = 2;
  ASSERT_OK_AND_ASSIGN(auto column, OpenColumn(spec));
  EXPECT_EQ(column->rows(), 2);
  EXPECT_EQ(column->Range(), (std::pair<double, double>{5, 7}));
}

TEST_F(DatasetTest, RefusesIdxThatPromisesOtherThanItHolds) {
  const auto open = [&](const std::string& content) {
    return OpenColumn(Spec("x", Write("a", content))).status();
  };
  EXPECT_THAT(
      open(Idx(8, {3, 2}, "12345")),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("[3, 2] elements of 1 byte(s), but 5")));
  EXPECT_THAT(open(Idx(8, {2}, "123")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("3 bytes")));
  // Products beyond 64 bits and of terabytes: refused without allocating them.
  EXPECT_THAT(open(Idx(14, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "1")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("elements of 8 byte(s)")));
  EXPECT_THAT(open(Idx(8, {0xFFFFFFFF, 1024}, "1")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("bytes follow")));
  EXPECT_THAT(open(std::string("\0\0\x08\x05\0\0", 6)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("needs 24 bytes")));
  EXPECT_THAT(open(std::string("\0\0\x08\xff", 4)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rank is 255")));
  EXPECT_THAT(open("hello world"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("neither IDX")));
  EXPECT_THAT(open(""), StatusIs(StatusCode::kInvalidArgument, HasSubstr("(0 bytes)")));
  ColumnSpec forced = Spec("x", Write("b", std::string("\0\0\x07\x01", 4)));
  forced.format = ColumnFormat::kIdx;
  EXPECT_THAT(OpenColumn(forced).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("element type 0x07")));
}

TEST_F(DatasetTest, MissingFileIsNotFoundWithItsPath) {
  EXPECT_THAT(OpenColumn(Spec("x", folder_ + "/nothing.npy")).status(),
              StatusIs(StatusCode::kNotFound, HasSubstr("nothing.npy")));
}

TEST_F(DatasetTest, ReadsNpyOfEveryElementType) {
  struct Case {
    std::string descr, payload;
    DataType stored;
  };
  const std::vector<Case> cases = {
      {"<f4", Raw<float>({1, -2, 3, 4}), DataType::kFloat32},
      {"<f8", Raw<double>({1, -2, 3, 4}), DataType::kFloat64},
      {"<i4", Raw<int32_t>({1, -2, 3, 4}), DataType::kInt32},
      {"<i8", Raw<int64_t>({1, -2, 3, 4}), DataType::kInt64},
      {"|i1", Raw<int8_t>({1, -2, 3, 4}), DataType::kInt8},
      {"|u1", Raw<uint8_t>({1, 254, 3, 4}), DataType::kUint8},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.descr);
    ASSERT_OK_AND_ASSIGN(
        auto column, OpenColumn(Spec("x", Write("a", NpyV1(Dict(c.descr, "(2, 2)"), c.payload)))));
    EXPECT_EQ(column->stored_type(), c.stored);
    EXPECT_EQ(GatherAll<float>(*column, {1, 0}),
              (std::vector<float>{3, 4, 1, c.descr == "|u1" ? 254.f : -2.f}));
  }
}

TEST_F(DatasetTest, ReadsNpyVersion2) {
  const std::string dict = Dict("<i8", "(3,)");
  std::string content = "\x93NUMPY";
  content += std::string("\x02\x00", 2);
  content += Raw<uint32_t>({static_cast<uint32_t>(dict.size())});
  content += dict + Raw<int64_t>({4, 5, 6});
  ASSERT_OK_AND_ASSIGN(auto column, OpenColumn(Spec("x", Write("a", content))));
  EXPECT_EQ(GatherAll<int64_t>(*column, {2, 1, 0}), (std::vector<int64_t>{6, 5, 4}));
}

TEST_F(DatasetTest, RefusesBadNpyNamingWhatIsWrong) {
  const std::string four = Raw<float>({1, 2, 3, 4});
  struct Case {
    std::string content, message;
  };
  const std::vector<Case> cases = {
      {NpyV1(Dict("<f4", "(2, 2)", "True"), four), "Fortran order"},
      {NpyV1(Dict(">f4", "(2, 2)"), four), "element type '>f4'"},
      {NpyV1(Dict("|O", "(2, 2)"), four), "element type '|O'"},
      {NpyV1(Dict("<f4", "(2, 3)"), four), "but 16 bytes follow"},
      {NpyV1(Dict("<f4", "(9999999999, 9999999999)"), four), "bytes follow"},
      {NpyV1(Dict("<f4", "()"), four.substr(0, 4)), "0 axes"},
      {NpyV1(Dict("<f4", "(-1, 2)"), four), "not a dict"},
      {NpyV1(Dict("<f4", "(1,1,1,1,1,1,1,1,1,1,1,4)"), four), "not a dict"},
      {NpyV1("{'descr': '<f4', 'shape': (2, 2)}", four), "not a dict"},
      {NpyV1("{'descr': __import__('os')}", four), "not a dict"},
      {NpyV1("", ""), "not a dict"},
      {std::string("\x93NUMPY\x03\x00\x05\x00", 10), "version 3.0"},
      {std::string("\x93NUMPY\x01\x00\xff\xff{}", 12), "says it has 65535"},
      {std::string("\x93NUMPY\x02\x00\x00\x00", 10), "cut short"},
      {"\x93NUMPY", "must start with"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(OpenColumn(Spec("x", Write("a.npy", c.content))).status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST_F(DatasetTest, NoPrefixOfAFileCrashesOrIsAccepted) {
  for (const std::string& whole :
       {NpyV1(Dict("<f4", "(2, 2)"), Raw<float>({1, 2, 3, 4})), Idx(8, {2, 2}, "1234")}) {
    for (size_t n = 0; n < whole.size(); ++n)
      EXPECT_FALSE(OpenColumn(Spec("x", Write("a", whole.substr(0, n)))).ok()) << n;
  }
}

TEST_F(DatasetTest, TextWindowsHoldRanksOfCodePoints) {
  // In code point order: ' '=0 'a'=1 'b'=2 'h'=3 'é'=4.
  ColumnSpec x = Spec("x", Write("t.txt",
                                 "h\xc3\xa9"
                                 "ba b\xc3\xa9"));  // 7 characters
  x.window = 3;
  ASSERT_OK_AND_ASSIGN(auto column, OpenColumn(x));
  EXPECT_EQ(column->rows(), 2);  // 3 + 3 tokens, one left for the labels
  EXPECT_EQ(GatherAll<int64_t>(*column, {0, 1}), (std::vector<int64_t>{3, 4, 2, 1, 0, 2}));
  ColumnSpec y = x;
  y.name = "y";
  y.shift = 1;
  ASSERT_OK_AND_ASSIGN(auto labels, OpenColumn(y));
  EXPECT_EQ(labels->rows(), 2);
  EXPECT_EQ(GatherAll<int64_t>(*labels, {1}), (std::vector<int64_t>{0, 2, 4}));
  x.stride = 1;
  ASSERT_OK_AND_ASSIGN(auto dense, OpenColumn(x));
  EXPECT_EQ(dense->rows(), 4);
  EXPECT_EQ(GatherAll<int64_t>(*dense, {1}), (std::vector<int64_t>{4, 2, 1}));
}

TEST_F(DatasetTest, TextTokensComeFromTheVocabularyText) {
  ColumnSpec spec = Spec("x", Write("v.txt", "cab"));
  spec.window = 2;
  spec.vocabulary_path = Write("train.txt", "abcdef");
  ASSERT_OK_AND_ASSIGN(auto column, OpenColumn(spec));
  EXPECT_EQ(GatherAll<int64_t>(*column, {0}), (std::vector<int64_t>{2, 0}));
  spec.path = Write("w.txt", "abz");
  EXPECT_THAT(OpenColumn(spec).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("U+007A at position 2")));
}

TEST_F(DatasetTest, RefusesInvalidUtf8WithItsOffset) {
  const std::vector<std::string> bad = {
      "ab\xff", "ab\xc0\x80", "ab\xe0\x80\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80",
      "ab\xc3", "ab\xc3(",    "ab\x80"};
  for (const std::string& text : bad) {
    ColumnSpec spec = Spec("x", Write("t.txt", text));
    spec.window = 1;
    EXPECT_THAT(OpenColumn(spec).status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("offset 2 is not valid UTF-8")));
  }
}

TEST_F(DatasetTest, RefusesTextShorterThanAWindow) {
  ColumnSpec spec = Spec("x", Write("t.txt", "abc"));
  spec.window = 3;
  EXPECT_THAT(OpenColumn(spec).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("3 characters")));
  spec.window = 0;
  EXPECT_THAT(OpenColumn(spec).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("window 0")));
}

TEST(ShapeFitsTest, AllowsOnesAndGroupingOnly) {
  EXPECT_TRUE(ShapeFits({28, 28}, {1, 28, 28}));
  EXPECT_TRUE(ShapeFits({28, 28}, {784}));
  EXPECT_TRUE(ShapeFits({784}, {1, 28, 28}));
  EXPECT_TRUE(ShapeFits({}, {1}));
  EXPECT_TRUE(ShapeFits({2, 3, 4}, {6, 4}));
  EXPECT_FALSE(ShapeFits({28, 28, 3}, {3, 28, 28}));
  EXPECT_FALSE(ShapeFits({2, 6}, {3, 4}));
  EXPECT_FALSE(ShapeFits({2, 6}, {6, 2}));
  EXPECT_FALSE(ShapeFits({28, 28}, {28, 27}));
  EXPECT_FALSE(ShapeFits({28}, {}));
  EXPECT_FALSE(ShapeFits({4}, {4, 4}));
}

std::vector<ColumnRequirement> ImagesAndLabels() {
  return {{"x", DataType::kFloat32, Shape{1, 2, 2}, 0}, {"y", DataType::kInt64, Shape{}, 3}};
}

TEST_F(DatasetTest, OpensColumnsThatFitTheModel) {
  ASSERT_OK_AND_ASSIGN(auto data,
                       Dataset::Open({Spec("x", Write("x", Idx(8, {2, 2, 2}, "12345678"))),
                                      Spec("y", Write("y", Idx(8, {2}, std::string("\2\0", 2))))},
                                     ImagesAndLabels()));
  EXPECT_EQ(data->rows(), 2);
  ASSERT_NE(data->Find("y"), nullptr);
  EXPECT_EQ(GatherAll<int64_t>(*data->Find("y"), {0, 1}), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(data->Find("z"), nullptr);
}

TEST_F(DatasetTest, RefusesDataThatDoesNotFitTheModel) {
  const ColumnSpec x = Spec("x", Write("x", Idx(8, {2, 2, 2}, "12345678")));
  const ColumnSpec y = Spec("y", Write("y", Idx(8, {2}, std::string("\2\0", 2))));
  struct Case {
    std::vector<ColumnSpec> columns;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{x}, "no data for 'y'"},
      {{}, "no data for 'x'"},
      {{x, y, Spec("z", "z")}, "column 'z' is neither"},
      {{x, y, y}, "given twice"},
      {{x, Spec("y", Write("y3", Idx(8, {3}, std::string("\2\0\1", 3))))},
       "'x' (" + x.path + ") has 2, 'y'"},
      {{x, Spec("y", Write("y4", Idx(8, {2}, "\2\3")))}, "row 1 is 3, but the model has 3 classes"},
      {{x, Spec("y", Write("y5", Idx(9, {2}, "\xff\1")))}, "row 0 is -1"},
      {{x, Spec("y", Write("y6", NpyV1(Dict("<f4", "(2,)"), Raw<float>({1, 1.5}))))},
       "whole numbers, row 1 has 1.5"},
      {{x, Spec("y", Write("y7", NpyV1(Dict("<f4", "(2,)"),
                                       Raw<float>({1, std::bit_cast<float>(0x7fc00000)}))))},
       "whole numbers, row 1 has nan"},
      {{Spec("x", Write("x2", Idx(8, {2, 3}, "123456"))), y}, "samples of shape [3]"},
      {{Spec("x", Write("x0", Idx(8, {0, 2, 2}, ""))), y}, "has no rows"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Dataset::Open(c.columns, ImagesAndLabels()).status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST_F(DatasetTest, TextWindowComesFromTheModelAndRowsAgree) {
  const std::string path = Write("train.txt", "abcabcabc");  // 9 characters, windows of 3
  ColumnSpec x = Spec("x", path), y = Spec("y", path);
  y.shift = 2;
  const std::vector<ColumnRequirement> want = {{"x", DataType::kInt64, Shape{3}, 3},
                                               {"y", DataType::kInt64, Shape{3}, 3}};
  ASSERT_OK_AND_ASSIGN(auto data, Dataset::Open({x, y}, want));
  EXPECT_EQ(data->rows(), 2);  // 2 * 3 + 2 <= 9 < 3 * 3 + 2
  EXPECT_EQ(GatherAll<int64_t>(*data->Find("y"), {1}), (std::vector<int64_t>{2, 0, 1}));
}

TEST_F(DatasetTest, FindsStandardFilesInAFolder) {
  Write("train-images-idx3-ubyte", "");
  Write("train-labels-idx1-ubyte.gz", "");
  Write("t10k-images-idx3-ubyte", "");
  Write("test-y.npy", "");
  ASSERT_OK_AND_ASSIGN(auto train, FindColumns(folder_, "train", {"x"}, {"y"}));
  ASSERT_EQ(train.size(), 2u);
  EXPECT_EQ(train[0].name, "x");
  EXPECT_EQ(train[0].path, folder_ + "/train-images-idx3-ubyte");
  EXPECT_DOUBLE_EQ(train[0].scale, 1.0 / 255);
  EXPECT_EQ(train[1].path, folder_ + "/train-labels-idx1-ubyte.gz");
  EXPECT_EQ(train[1].scale, 1);
  ASSERT_OK_AND_ASSIGN(auto test, FindColumns(folder_, "test", {"x"}, {"y"}));
  EXPECT_EQ(test[0].path, folder_ + "/t10k-images-idx3-ubyte");
  EXPECT_EQ(test[1].path, folder_ + "/test-y.npy");
  EXPECT_THAT(FindColumns(folder_, "train", {"a", "b"}, {"y"}).status(),
              StatusIs(StatusCode::kNotFound, HasSubstr("looked for train-a.npy[.gz]")));
  EXPECT_THAT(FindColumns(folder_ + "/none", "train", {"x"}, {"y"}).status(),
              StatusIs(StatusCode::kNotFound, HasSubstr("no such folder")));
}

TEST_F(DatasetTest, FindsTextWithShiftedLabelsAndTheTrainingVocabulary) {
  Write("train.txt", "abc");
  Write("test.txt", "ab");
  ASSERT_OK_AND_ASSIGN(auto test, FindColumns(folder_, "test", {"x"}, {"y"}));
  EXPECT_EQ(test[0].path, folder_ + "/test.txt");
  EXPECT_EQ(test[0].vocabulary_path, folder_ + "/train.txt");
  EXPECT_EQ(test[0].shift, 0);
  EXPECT_EQ(test[1].shift, 1);
}

TEST(SharedDatasetsTest, ReadsFashionAndAusten) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  const std::string folder = SharedDataDir() + "/datasets/";
  ColumnSpec x, y;
  x.name = "x";
  x.path = folder + "fashion-test-images.idx3";
  x.scale = 1.0 / 255;
  y.name = "y";
  y.path = folder + "fashion-test-labels.idx1";
  ASSERT_OK_AND_ASSIGN(auto data,
                       Dataset::Open({x, y}, {{"x", DataType::kFloat32, Shape{1, 28, 28}, 0},
                                              {"y", DataType::kInt64, Shape{}, 10}}));
  EXPECT_EQ(data->rows(), 2000);
  EXPECT_EQ(data->Find("x")->Range(), (std::pair<double, double>{0, 1}));
  EXPECT_EQ(data->Find("y")->Range(), (std::pair<double, double>{0, 9}));
  ColumnSpec text;
  text.name = "x";
  text.path = folder + "austen-train.txt";
  text.window = 48;
  ASSERT_OK_AND_ASSIGN(auto tokens, OpenColumn(text));
  EXPECT_EQ(tokens->Range(), (std::pair<double, double>{0, 74}));  // 75 distinct characters
}

}  // namespace
}  // namespace pipedream
