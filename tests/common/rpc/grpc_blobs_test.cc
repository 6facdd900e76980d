#include "common/rpc/grpc_blobs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/file.h"
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

// Keeps blobs in memory; can break transfers off in the middle.
class BlobService : public v1::CoordinatorService::Service {
 public:
  grpc::Status FindBlobs(grpc::ServerContext*, const v1::FindBlobsRequest* request,
                         v1::FindBlobsResponse* response) override {
    for (const auto& hash : request->sha256()) {
      if (blobs.count(hash)) response->add_present(hash);
    }
    return grpc::Status::OK;
  }
  grpc::Status UploadBlob(grpc::ServerContext*, grpc::ServerReader<v1::UploadBlobRequest>* reader,
                          v1::UploadBlobResponse*) override {
    ++uploads;
    v1::UploadBlobRequest request;
    std::string hash, content;
    while (reader->Read(&request)) {
      if (request.has_header()) hash = request.header().sha256();
      largest = std::max(largest, request.data().size());
      content += request.data();
      if (break_uploads > 0 && content.size() > 100) {
        --break_uploads;
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
      }
    }
    if (Sha256Hex(content) != hash) return grpc::Status(grpc::StatusCode::DATA_LOSS, "hash");
    blobs[hash] = content;
    return grpc::Status::OK;
  }
  grpc::Status DownloadBlob(grpc::ServerContext*, const v1::DownloadBlobRequest* request,
                            grpc::ServerWriter<v1::BlobChunk>* writer) override {
    offsets.push_back(request->offset());
    auto blob = blobs.find(request->sha256());
    if (blob == blobs.end()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such blob");
    if (request->offset() > static_cast<int64_t>(blob->second.size())) {
      return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "offset");
    }
    for (size_t at = request->offset(); at < blob->second.size(); at += kMaxChunkBytes) {
      if (break_downloads > 0 && at > 0) {
        --break_downloads;
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
      }
      v1::BlobChunk chunk;
      chunk.set_data(blob->second.substr(at, kMaxChunkBytes));
      writer->Write(chunk);
    }
    return grpc::Status::OK;
  }
  std::map<std::string, std::string> blobs;
  std::vector<int64_t> offsets;
  int uploads = 0, break_uploads = 0, break_downloads = 0;
  size_t largest = 0;
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
  EXPECT_EQ(service.blobs[hash], content);
  EXPECT_LE(service.largest, static_cast<size_t>(kMaxChunkBytes));
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen.back(), static_cast<int64_t>(content.size()));
}

TEST_F(BlobsTest, UploadsAnEmptyFile) {
  ASSERT_OK_AND_ASSIGN(BlobInfo blob, HashFile(Write("empty", "")));
  ASSERT_OK(UploadBlob(*stub, blob, options));
  EXPECT_EQ(service.blobs.size(), 1u);
}

TEST_F(BlobsTest, UploadStartsAgainWhenTheCoordinatorRestarts) {
  ASSERT_OK_AND_ASSIGN(BlobInfo blob, HashFile(Write("a", content)));
  service.break_uploads = 2;
  ASSERT_OK(UploadBlob(*stub, blob, options));
  EXPECT_EQ(service.uploads, 3);
  EXPECT_EQ(service.blobs[hash], content);
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
  service.blobs[a.sha256] = "a";
  ASSERT_OK_AND_ASSIGN(auto missing, MissingBlobs(*stub, {a, b, again}));
  EXPECT_THAT(missing, testing::ElementsAre(b));
}

TEST_F(BlobsTest, DownloadResumesWhereItBrokeOff) {
  service.blobs[hash] = content;
  service.break_downloads = 2;
  ASSERT_OK(DownloadBlob(*stub, hash, folder + "/out", options));
  EXPECT_EQ(Read(folder + "/out"), content);
  EXPECT_THAT(service.offsets, testing::ElementsAre(0, kMaxChunkBytes, kMaxChunkBytes));
  EXPECT_FALSE(std::filesystem::exists(folder + "/out.part"));
}

TEST_F(BlobsTest, DownloadTakesUpWhatAnEarlierProcessLeft) {
  service.blobs[hash] = content;
  Write("out.part", content.substr(0, 1000));
  ASSERT_OK(DownloadBlob(*stub, hash, folder + "/out", options));
  EXPECT_EQ(Read(folder + "/out"), content);
  EXPECT_THAT(service.offsets, testing::ElementsAre(1000));
}

TEST_F(BlobsTest, DownloadDoesNotTrustALeftoverOfAnotherFile) {
  service.blobs[hash] = content;
  Write("out.part", std::string(1000, 'z'));
  ASSERT_OK(DownloadBlob(*stub, hash, folder + "/out", options));
  EXPECT_EQ(Read(folder + "/out"), content);
  Write("out2.part", content + "longer than the file");
  ASSERT_OK(DownloadBlob(*stub, hash, folder + "/out2", options));
  EXPECT_EQ(Read(folder + "/out2"), content);
}

TEST_F(BlobsTest, DamagedDownloadsLeaveNothingBehind) {
  service.blobs[hash] = content + "damage";
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
  service.blobs[hash] = content;
  options.max_bytes = 1000;
  EXPECT_THAT(DownloadBlob(*stub, hash, folder + "/out", options),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1000")));
}

}  // namespace
}  // namespace pipedream
