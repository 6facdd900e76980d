// Files by content, from the side that calls the coordinator: the client uploads what a job reads,
// workers fetch it, the client takes the result away.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "pipedream/v1/coordinator.grpc.pb.h"

namespace pipedream {

struct BlobInfo {
  std::string path;
  std::string sha256;
  int64_t bytes = 0;
  bool operator==(const BlobInfo&) const = default;
};

// Reads the file once. kNotFound, kPermissionDenied or kInvalidArgument (a folder) name the path.
absl::StatusOr<BlobInfo> HashFile(const std::string& path);

struct TransferOptions {
  // Called after every chunk with the bytes of this file done so far; may be empty.
  std::function<void(int64_t done)> progress;
  // For the whole file: this long plus its size at a megabyte per second.
  Duration slack = std::chrono::seconds(60);
  // How often an interrupted transfer is taken up again while the peer is UNAVAILABLE.
  int attempts = 4;
  Duration backoff = std::chrono::milliseconds(200);  // before the second attempt; doubles
  int64_t max_bytes = int64_t{256} << 30;             // of a download
  // Asked at every chunk of a download, and before it is tried again; true ends it with kCancelled.
  std::function<bool()> cancelled;
};

// Which of the blobs the coordinator lacks, without repeats, in order.
absl::StatusOr<std::vector<BlobInfo>> MissingBlobs(v1::CoordinatorService::StubInterface& stub,
                                                   const std::vector<BlobInfo>& blobs);

// Uploads one file. kFailedPrecondition if the file is no longer what `blob` says it is.
absl::Status UploadBlob(v1::CoordinatorService::StubInterface& stub, const BlobInfo& blob,
                        const TransferOptions& options);

// Downloads to `path`: by way of `path`.part, taken up where an earlier attempt (of this or another
// process) left off, checked against the hash, and renamed. kNotFound: no such blob. kDataLoss: the
// content does not have that hash; nothing is left behind.
absl::Status DownloadBlob(v1::CoordinatorService::StubInterface& stub, const std::string& sha256,
                          const std::string& path, const TransferOptions& options);

}  // namespace pipedream
