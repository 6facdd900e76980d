#include "common/rpc/grpc_blobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/mutex.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/rpc/grpc_channel.h"
#include "common/rpc/grpc_limits.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/grpc_status.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

// Keeps blobs in memory; can break transfers off in the middle. Thread-safe.
class BlobService : public v1::CoordinatorService::Service {
 public:
  void SetBlob(const std::string& hash, std::string content) {
    MutexLock lock(mutex_);
    blobs_[hash] = std::move(content);
  }
  void BreakUploads(int count) {
    MutexLock lock(mutex_);
    break_uploads_ = count;
  }
  void BreakDownloads(int count) {
    MutexLock lock(mutex_);
    break_downloads_ = count;
  }
  std::map<std::string, std::string> blobs() const {
    MutexLock lock(mutex_);
    return blobs_;
  }
  // Where downloads began.
  std::vector<int64_t> offsets() const {
    MutexLock lock(mutex_);
    return offsets_;
  }
  int uploads() const {
    MutexLock lock(mutex_);
    return uploads_;
  }
  // Bytes of the largest message of an upload.
  size_t largest() const {
    MutexLock lock(mutex_);
    return largest_;
  }

  grpc::Status FindBlobs(grpc::ServerContext*, const v1::FindBlobsRequest* request,
                         v1::FindBlobsResponse* response) override {
    MutexLock lock(mutex_);
    for (const auto& hash : request->sha256()) {
      if (blobs_.count(hash)) response->add_present(hash);
    }
    return grpc::Status::OK;
  }
  grpc::Status UploadBlob(grpc::ServerContext*, grpc::ServerReader<v1::UploadBlobRequest>* reader,
                          v1::UploadBlobResponse*) override {
    {
      MutexLock lock(mutex_);
      ++uploads_;
    }
    v1::UploadBlobRequest request;
    std::string hash, content;
    while (reader->Read(&request)) {
      if (request.has_header()) hash = request.header().sha256();
      content += request.data();
      MutexLock lock(mutex_);
      largest_ = std::max(largest_, request.data().size());
      if (break_uploads_ > 0 && content.size() > 100) {
        --break_uploads_;
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
      }
    }
    if (Sha256Hex(content) != hash) return grpc::Status(grpc::StatusCode::DATA_LOSS, "hash");
    MutexLock lock(mutex_);
    blobs_[hash] = content;
    return grpc::Status::OK;
  }
  grpc::Status DownloadBlob(grpc::ServerContext*, const v1::DownloadBlobRequest* request,
                            grpc::ServerWriter<v1::BlobChunk>* writer) override {
    std::string content;
    {
      MutexLock lock(mutex_);
      offsets_.push_back(request->offset());
      auto blob = blobs_.find(request->sha256());
      if (blob == blobs_.end()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such blob");
      content = blob->second;
    }
    if (request->offset() > static_cast<int64_t>(content.size())) {
      return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "offset");
    }
    for (size_t at = request->offset(); at < content.size(); at += kMaxChunkBytes) {
      if (at > 0 && BreaksDownload()) {
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
      }
      v1::BlobChunk chunk;
      chunk.set_data(content.substr(at, kMaxChunkBytes));
      writer->Write(chunk);
    }
    return grpc::Status::OK;
  }

 private:
  bool BreaksDownload() {
    MutexLock lock(mutex_);
    if (break_downloads_ == 0) return false;
    --break_downloads_;
    return true;
  }

  mutable Mutex mutex_;
  std::map<std::string, std::string> blobs_ PD_GUARDED_BY(mutex_);
  std::vector<int64_t> offsets_ PD_GUARDED_BY(mutex_);
  int uploads_ PD_GUARDED_BY(mutex_) = 0;
  int break_uploads_ PD_GUARDED_BY(mutex_) = 0;
  int break_downloads_ PD_GUARDED_BY(mutex_) = 0;
  size_t largest_ PD_GUARDED_BY(mutex_) = 0;
};

class BlobsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = testing::TempDir() + "/blobs-" +
             testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    ASSERT_OK_AND_ASSIGN(server, RpcServer::Start({}, {&service}));
    ASSERT_OK_AND_ASSIGN(auto channel, OpenChannel({server->address()}));
    stub = v1::CoordinatorService::NewStub(channel);
    options.backoff = std::chrono::milliseconds(1);
    for (int i = 0; i < 3 * kMaxChunkBytes + 5; ++i) content += static_cast<char>(i * 31 + i / 999);
    hash = Sha256Hex(content);
  }
  void TearDown() override {
    server.reset();
    std::filesystem::remove_all(folder);
  }
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
    return folder + "/" + name;
  }
  std::string Read(const std::string& path) { return ReadFile(path, 1 << 30).value_or("unread"); }

  BlobService service;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<v1::CoordinatorService::Stub> stub;
  TransferOptions options;
  std::string folder, content, hash;
};

TEST_F(BlobsTest, HashFileKnowsTheStandardVector) {
  ASSERT_OK_AND_ASSIGN(BlobInfo blob, HashFile(Write("abc", "abc")));
  EXPECT_EQ(blob.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(blob.bytes, 3);
}

TEST_F(BlobsTest, HashFileNamesWhatItCannotRead) {
  EXPECT_THAT(HashFile(folder + "/none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder + "/none")));
  EXPECT_THAT(HashFile(folder), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("folder")));
}

TEST_F(BlobsTest, UploadsInChunksAndReportsProgress) {
  ASSERT_OK_AND_ASSIGN(BlobInfo blob, HashFile(Write("a", content)));
  std::vector<int64_t> seen;
  options.progress = [&](int64_t done) { seen.push_back(done); };
  ASSERT_OK(UploadBlob(*stub, blob, options));
  EXPECT_EQ(service.blobs()[hash], content);
  EXPECT_LE(service.largest(), static_cast<size_t>(kMaxChunkBytes));
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen.back(), static_cast<int64_t>(content.size()));
}

TEST_F(BlobsTest, UploadsAnEmptyFile) {
  ASSERT_OK_AND_ASSIGN(BlobInfo blob, HashFile(Write("empty", "")));
  ASSERT_OK(UploadBlob(*stub, blob, options));
  EXPECT_EQ(service.blobs().size(), 1u);
}

TEST_F(BlobsTest, UploadStartsAgainWhenTheCoordinatorRestarts) {
  ASSERT_OK_AND_ASSIGN(BlobInfo blob, HashFile(Write("a", content)));
  service.BreakUploads(2);
  ASSERT_OK(UploadBlob(*stub, blob, options));
  EXPECT_EQ(service.uploads(), 3);
  EXPECT_EQ(service.blobs()[hash], content);
}

TEST_F(BlobsTest, UploadNoticesAFileThatChanged) {
  ASSERT_OK_AND_ASSIGN(BlobInfo blob, HashFile(Write("a", content)));
  Write("a", content + "more");
  EXPECT_THAT(UploadBlob(*stub, blob, options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("changed")));
}

TEST_F(BlobsTest, MissingBlobsAreListedOnce) {
  ASSERT_OK_AND_ASSIGN(BlobInfo a, HashFile(Write("a", "a")));
  ASSERT_OK_AND_ASSIGN(BlobInfo b, HashFile(Write("b", "b")));
  BlobInfo again = b;
  again.path = "elsewhere";
  service.SetBlob(a.sha256, "a");
  ASSERT_OK_AND_ASSIGN(auto missing, MissingBlobs(*stub, {a, b, again}));
  EXPECT_THAT(missing, testing::ElementsAre(b));
}

TEST_F(BlobsTest, DownloadResumesWhereItBrokeOff) {
  service.SetBlob(hash, content);
  service.BreakDownloads(2);
  ASSERT_OK(DownloadBlob(*stub, hash, folder + "/out", options));
  EXPECT_EQ(Read(folder + "/out"), content);
  EXPECT_THAT(service.offsets(), testing::ElementsAre(0, kMaxChunkBytes, kMaxChunkBytes));
  EXPECT_FALSE(std::filesystem::exists(folder + "/out.part"));
}

TEST_F(BlobsTest, DownloadTakesUpWhatAnEarlierProcessLeft) {
  service.SetBlob(hash, content);
  Write("out.part", content.substr(0, 1000));
  ASSERT_OK(DownloadBlob(*stub, hash, folder + "/out", options));
  EXPECT_EQ(Read(folder + "/out"), content);
  EXPECT_THAT(service.offsets(), testing::ElementsAre(1000));
}

TEST_F(BlobsTest, DownloadDoesNotTrustALeftoverOfAnotherFile) {
  service.SetBlob(hash, content);
  Write("out.part", std::string(1000, 'z'));
  ASSERT_OK(DownloadBlob(*stub, hash, folder + "/out", options));
  EXPECT_EQ(Read(folder + "/out"), content);
  Write("out2.part", content + "longer than the file");
  ASSERT_OK(DownloadBlob(*stub, hash, folder + "/out2", options));
  EXPECT_EQ(Read(folder + "/out2"), content);
}

TEST_F(BlobsTest, DamagedDownloadsLeaveNothingBehind) {
  service.SetBlob(hash, content + "damage");
  EXPECT_THAT(DownloadBlob(*stub, hash, folder + "/out", options),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(hash)));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(BlobsTest, DownloadOfAnUnknownBlobIsNotFound) {
  EXPECT_THAT(DownloadBlob(*stub, hash, folder + "/out", options),
              StatusIs(absl::StatusCode::kNotFound, testing::_));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(BlobsTest, DownloadStopsAtItsLimit) {
  service.SetBlob(hash, content);
  options.max_bytes = 1000;
  EXPECT_THAT(DownloadBlob(*stub, hash, folder + "/out", options),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1000")));
}

}  // namespace
}  // namespace pipedream
