#include "coordinator/store/blob_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "coordinator/store/job_files.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// SHA-256 of "abc", from FIPS 180-2.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

ColumnSpec Column(const std::string& path) {
  ColumnSpec column;
  column.name = "x";
  column.path = path;
  return column;
}

class BlobStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/blobs-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    ASSERT_OK_AND_ASSIGN(store_,
                         BlobStore::Open(folder_, {.max_bytes = 1000, .keep_free_bytes = 0}));
  }
  void TearDown() override { fs::remove_all(folder_); }
  absl::Status Put(const std::string& hash, const std::string& content, int64_t bytes) {
    PD_ASSIGN_OR_RETURN(auto upload, store_->Begin(hash, bytes));
    PD_RETURN_IF_ERROR(upload->Write(content));
    return upload->Finish();
  }
  int Leftovers() {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_ + "/tmp"), {}));
  }
  std::string folder_;
  std::unique_ptr<BlobStore> store_;
};

TEST_F(BlobStoreTest, WhatIsPutIsThereUnderItsHash) {
  EXPECT_FALSE(store_->Has(kAbc));
  EXPECT_THAT(store_->PathOf(kAbc), StatusIs(absl::StatusCode::kNotFound, HasSubstr(kAbc)));
  ASSERT_OK(Put(kAbc, "abc", 3));
  ASSERT_OK_AND_ASSIGN(std::string path, store_->PathOf(kAbc));
  EXPECT_EQ(path, folder_ + "/ba/" + kAbc);
  ASSERT_OK_AND_ASSIGN(std::string content, ReadFile(path, 10));
  EXPECT_EQ(content, "abc");
  ASSERT_OK(Put(kAbc, "abc", 3));  // again: no harm
  EXPECT_EQ(Leftovers(), 0);
}

TEST_F(BlobStoreTest, WrongContentLeavesNothing) {
  EXPECT_THAT(Put(kAbc, "abd", 3), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SHA")));
  EXPECT_THAT(Put(kAbc, "ab", 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 bytes")));
  EXPECT_THAT(Put(kAbc, "abcd", 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more")));
  EXPECT_FALSE(store_->Has(kAbc));
  EXPECT_EQ(Leftovers(), 0);
}

TEST_F(BlobStoreTest, LimitsAndNamesAreChecked) {
  EXPECT_THAT(store_->Begin(kAbc, 1001),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("limit")));
  EXPECT_THAT(store_->Begin("../../etc/passwd", 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SHA-256")));
  EXPECT_FALSE(store_->Has("../../etc/passwd"));
  ASSERT_OK_AND_ASSIGN(auto full,
                       BlobStore::Open(folder_ + "/full", {.keep_free_bytes = int64_t{1} << 60}));
  EXPECT_THAT(full->Begin(kAbc, 3),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("make room")));
}

TEST_F(BlobStoreTest, InterruptedUploadsAreDroppedAtTheNextStart) {
  ASSERT_OK(WriteFileAtomic(folder_ + "/tmp/upload-old", "half"));
  ASSERT_OK(Put(kAbc, "abc", 3));
  ASSERT_OK_AND_ASSIGN(auto again, BlobStore::Open(folder_));
  EXPECT_EQ(Leftovers(), 0);
  EXPECT_TRUE(again->Has(kAbc));
}

TEST_F(BlobStoreTest, AFileIsAddedByContent) {
  ASSERT_OK(WriteFileAtomic(folder_ + "/file", "abc"));
  ASSERT_OK_AND_ASSIGN(std::string hash, store_->AddFile(folder_ + "/file"));
  EXPECT_EQ(hash, kAbc);
  EXPECT_TRUE(store_->Has(kAbc));
}

TEST_F(BlobStoreTest, ATextIsAddedByContent) {
  ASSERT_OK_AND_ASSIGN(std::string hash, store_->AddText("a ledger\n"));
  EXPECT_EQ(hash, Sha256Hex("a ledger\n"));
  EXPECT_EQ(store_->AddText("a ledger\n").value_or(""), hash) << "twice is no fault";
  ASSERT_OK_AND_ASSIGN(std::string path, store_->PathOf(hash));
  EXPECT_EQ(ReadFile(path, 100).value_or(""), "a ledger\n");
  EXPECT_THAT(store_->AddText(std::string(1001, 'x')),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
}

TEST_F(BlobStoreTest, AJobsFilesLieAsItsSpecNamesThem) {
  ASSERT_OK(Put(kAbc, "abc", 3));
  JobSpec spec;
  spec.model = {"/home/u/m.onnx", kAbc, 3};
  spec.model_data = {{"weights/w.bin", kAbc, 3}};
  spec.data_files = {{"/home/u/train.txt", kAbc, 3}};
  std::string folder;
  {
    ASSERT_OK_AND_ASSIGN(JobFiles files, JobFiles::Open(spec, store_.get(), ""));
    folder = files.folder();
    ASSERT_OK_AND_ASSIGN(std::string model, ReadFile(files.model_path(), 10));
    EXPECT_EQ(model, "abc");
    std::string root = fs::path(files.model_path()).parent_path().string();
    EXPECT_OK(ResolveUnder(root, "weights/w.bin"));
    ASSERT_OK_AND_ASSIGN(auto columns, files.Columns({Column("/home/u/train.txt")}));
    EXPECT_TRUE(columns[0].path.ends_with("/train.txt"));
    EXPECT_OK(ReadFile(columns[0].path, 10));
    EXPECT_THAT(files.Columns({Column("/etc/passwd")}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/etc/passwd")));
  }
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(store_->Has(kAbc));
}

TEST_F(BlobStoreTest, JobFilesRefuseMissingBlobsAndPathsThatLeave) {
  ASSERT_OK(Put(kAbc, "abc", 3));
  JobSpec spec;
  spec.model = {"m.onnx", std::string(64, '0'), 3};
  spec.data_files = {{"x.npy", "", 3}};
  auto missing = JobFiles::Open(spec, store_.get(), "");
  EXPECT_THAT(missing, StatusIs(absl::StatusCode::kFailedPrecondition,
                                testing::AllOf(HasSubstr("'m.onnx'"), HasSubstr("'x.npy'"))));
  EXPECT_EQ(ReasonOf(missing.status()), "BLOB_MISSING");
  for (const char* path : {"../w.bin", "/w.bin", "a/../../w.bin", "", "model.onnx"}) {
    JobSpec bad;
    bad.model = {"m.onnx", kAbc, 3};
    bad.model_data = {{path, kAbc, 3}};
    EXPECT_THAT(JobFiles::Open(bad, store_.get(), ""),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::_))
        << path;
  }
  JobSpec shared;
  shared.model = {"shared:m.onnx", "", 3};
  EXPECT_THAT(JobFiles::Open(shared, store_.get(), ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data root")));
  shared.model.path = "shared:../m.onnx";
  EXPECT_THAT(JobFiles::Open(shared, store_.get(), folder_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("outside")));
}

}  // namespace
}  // namespace pipedream
