#include "worker/service/job_file_cache.h"

#include "tests/worker/service/service_fixture.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

class JobFileCacheTest : public testing::Test {
 protected:
  JobFileCacheTest() : job_(&coordinator_) {
    auto channel = OpenChannel({.address = coordinator_.address()});
    PIPEDREAM_CHECK(channel.ok());
    stub_ = v1::CoordinatorService::NewStub(*channel);
    cache_ = std::make_unique<JobFileCache>(folder_.path() + "/cache", stub_.get());
    PIPEDREAM_CHECK(MakeDirectories(folder_.path() + "/cache").ok());
  }

  FakeCoordinator coordinator_;
  TestJob job_;
  TempFolder folder_;
  std::unique_ptr<v1::CoordinatorService::StubInterface> stub_;
  std::unique_ptr<JobFileCache> cache_;
};

TEST_F(JobFileCacheTest, FetchesEveryFileOnceAndOnlyTheColumnsAskedFor) {
  ASSERT_OK_AND_ASSIGN(auto model, cache_->OpenModel(job_.spec(), Never));
  ASSERT_OK_AND_ASSIGN(auto again, cache_->OpenModel(job_.spec(), Never));
  EXPECT_EQ(model, again);
  EXPECT_EQ(coordinator_.downloads(), 1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(auto labels, cache_->OpenDataset(job_.spec(), *model,
                                                          job_.spec().train_columns, {"y"}, Never));
    EXPECT_EQ(labels->rows(), 37);
    EXPECT_EQ(labels->Find("x"), nullptr);
    EXPECT_EQ(coordinator_.downloads(), 2);
  }
  ASSERT_OK_AND_ASSIGN(
      auto nothing, cache_->OpenDataset(job_.spec(), *model, job_.spec().train_columns, {}, Never));
  EXPECT_EQ(nothing, nullptr);
}

TEST_F(JobFileCacheTest, ExternalDataStaysInTheModelsFolder) {
  const std::string hash = coordinator_.AddBlob("weights");
  for (const std::string path :
       {"../escaped", "a/../../escaped", "/tmp/pipedream-escaped", "..", ""}) {
    SCOPED_TRACE(path);
    job_.spec().model_data = {{path, hash, 7}};
    const absl::Status status = cache_->OpenModel(job_.spec(), Never).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("outside the model's folder"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/escaped"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/cache/escaped"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/cache/models/escaped"));
  EXPECT_FALSE(std::filesystem::exists("/tmp/pipedream-escaped"));

  job_.spec().model_data = {{"deep/er/weights.bin", hash, 7}};
  EXPECT_OK(cache_->OpenModel(job_.spec(), Never).status());
}

TEST_F(JobFileCacheTest, AHashIsNeverTakenForAPath) {
  for (const std::string hash : {"", "../../etc/passwd", "ABCDEF"}) {
    job_.spec().model.sha256 = hash;
    const absl::Status status = cache_->OpenModel(job_.spec(), Never).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << hash;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.onnx"));
  }
  EXPECT_EQ(coordinator_.downloads(), 0);
}

TEST_F(JobFileCacheTest, ADownloadThatIsNotWantedAnyMoreEnds) {
  const absl::Status status = cache_->OpenModel(job_.spec(), [] { return true; }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status.ToString();
  EXPECT_OK(cache_->OpenModel(job_.spec(), Never).status());  // a later one is not affected
}

TEST_F(JobFileCacheTest, ADatasetNeedsItsColumnsAndFiles) {
  ASSERT_OK_AND_ASSIGN(auto model, cache_->OpenModel(job_.spec(), Never));
  auto open = [&](const std::string& column) {
    return cache_->OpenDataset(job_.spec(), *model, job_.spec().train_columns, {column}, Never)
        .status();
  };
  EXPECT_THAT(std::string(open("z").message()), HasSubstr("no column 'z'"));
  job_.spec().data_files.clear();
  EXPECT_THAT(std::string(open("x").message()), HasSubstr("does not list data file 'train-x.npy'"));
}

}  // namespace
}  // namespace pipedream
