#include "common/rpc/grpc_blobs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <thread>

#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/rpc/grpc_channel.h"
#include "common/rpc/grpc_limits.h"
#include "common/rpc/grpc_status.h"

namespace pipedream {
namespace {

absl::Status SystemError(std::string_view what, const std::string& path, int error) {
  auto code = error == ENOENT   ? absl::StatusCode::kNotFound
              : error == EACCES ? absl::StatusCode::kPermissionDenied
              : error == ENOSPC ? absl::StatusCode::kResourceExhausted
                                : absl::StatusCode::kUnavailable;
  return MakeStatus(code, "cannot {} {}: {}", what, path, std::strerror(error));
}

absl::StatusOr<UniqueFd> OpenRegular(const std::string& path, int64_t* bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return SystemError("read", path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError("read", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument("{} is not a regular file{}", path,
                           S_ISDIR(info.st_mode) ? " but a folder" : "");
  }
  *bytes = info.st_size;
  return fd;
}

// Up to one chunk; empty at the end.
absl::StatusOr<std::string> ReadChunk(int fd, const std::string& path) {
  std::string chunk(kMaxChunkBytes, '\0');
  ssize_t n;
  do {
    n = read(fd, chunk.data(), chunk.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return SystemError("read", path, errno);
  chunk.resize(n);
  return chunk;
}

absl::Status WriteAll(int fd, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("write", path, errno);
    data.remove_prefix(n);
  }
  return absl::OkStatus();
}

Duration FileTimeout(const TransferOptions& options, int64_t bytes) {
  return options.slack + std::chrono::microseconds(bytes);
}

// Runs `once` until it does not end in kUnavailable, at most options.attempts times.
absl::Status WithRetries(const TransferOptions& options,
                         const std::function<absl::Status()>& once) {
  Duration backoff = options.backoff;
  for (int attempt = 1;; ++attempt) {
    absl::Status status = once();
    if (!absl::IsUnavailable(status) || attempt >= options.attempts) return status;
    if (options.cancelled && options.cancelled()) return status;
    std::this_thread::sleep_for(backoff);
    backoff *= 2;
  }
}

absl::Status UploadOnce(v1::CoordinatorService::StubInterface& stub, const BlobInfo& blob,
                        const TransferOptions& options) {
  int64_t bytes = 0;
  PD_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular(blob.path, &bytes));
  if (bytes != blob.bytes) {
    return FailedPrecondition("{} changed while it was being uploaded: {} bytes, were {}",
                              blob.path, bytes, blob.bytes);
  }
  grpc::ClientContext context;
  SetTimeout(&context, FileTimeout(options, blob.bytes));
  v1::UploadBlobResponse response;
  auto writer = stub.UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  request.mutable_header()->set_sha256(blob.sha256);
  request.mutable_header()->set_bytes(blob.bytes);
  bool open = writer->Write(request);
  int64_t done = 0;
  while (open) {
    auto chunk = ReadChunk(fd.get(), blob.path);
    if (!chunk.ok()) {
      context.TryCancel();
      (void)writer->Finish();
      return chunk.status();
    }
    if (chunk->empty()) break;
    done += static_cast<int64_t>(chunk->size());
    request.set_data(*std::move(chunk));
    open = writer->Write(request);
    if (open && options.progress) options.progress(done);
  }
  writer->WritesDone();
  return FromGrpcStatus(writer->Finish());
}

// The state of a download that goes on over several attempts.
struct PartialFile {
  UniqueFd fd;
  std::string path;
  int64_t bytes = 0;
};

absl::StatusOr<PartialFile> OpenPartial(const std::string& path) {
  PartialFile part;
  part.path = path;
  part.fd.Reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!part.fd.valid()) return SystemError("write", path, errno);
  part.bytes = lseek(part.fd.get(), 0, SEEK_END);
  if (part.bytes < 0) return SystemError("write", path, errno);
  return part;
}

absl::Status ReceiveRest(v1::CoordinatorService::StubInterface& stub, const std::string& sha256,
                         const TransferOptions& options, PartialFile* part) {
  grpc::ClientContext context;
  SetTimeout(&context, FileTimeout(options, options.max_bytes));
  v1::DownloadBlobRequest request;
  request.set_sha256(sha256);
  request.set_offset(part->bytes);
  auto reader = stub.DownloadBlob(&context, request);
  v1::BlobChunk chunk;
  absl::Status local;
  while (local.ok() && reader->Read(&chunk)) {
    if (options.cancelled && options.cancelled()) {
      local = absl::CancelledError("the transfer is not wanted any more");
      break;
    }
    if (part->bytes + static_cast<int64_t>(chunk.data().size()) > options.max_bytes) {
      local = ResourceExhausted("blob {} is larger than the limit of {} bytes", sha256,
                                options.max_bytes);
      break;
    }
    local = WriteAll(part->fd.get(), chunk.data(), part->path);
    part->bytes += static_cast<int64_t>(chunk.data().size());
    if (options.progress) options.progress(part->bytes);
  }
  if (!local.ok()) context.TryCancel();
  absl::Status remote = FromGrpcStatus(reader->Finish());
  return local.ok() ? remote : local;
}

absl::StatusOr<std::string> HashOf(const PartialFile& part) {
  if (lseek(part.fd.get(), 0, SEEK_SET) != 0) return SystemError("read", part.path, errno);
  Sha256 hash;
  while (true) {
    PD_ASSIGN_OR_RETURN(std::string chunk, ReadChunk(part.fd.get(), part.path));
    if (chunk.empty()) return hash.HexDigest();
    hash.Update(chunk);
  }
}

}  // namespace

absl::StatusOr<BlobInfo> HashFile(const std::string& path) {
  BlobInfo blob;
  blob.path = path;
  int64_t size = 0;
  PD_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular(path, &size));
  Sha256 hash;
  while (true) {
    PD_ASSIGN_OR_RETURN(std::string chunk, ReadChunk(fd.get(), path));
    if (chunk.empty()) break;
    blob.bytes += static_cast<int64_t>(chunk.size());
    hash.Update(chunk);
  }
  blob.sha256 = hash.HexDigest();
  return blob;
}

absl::StatusOr<std::vector<BlobInfo>> MissingBlobs(v1::CoordinatorService::StubInterface& stub,
                                                   const std::vector<BlobInfo>& blobs) {
  grpc::ClientContext context;
  SetTimeout(&context, kCallTimeout);
  v1::FindBlobsRequest request;
  for (const BlobInfo& blob : blobs) request.add_sha256(blob.sha256);
  v1::FindBlobsResponse response;
  PD_RETURN_IF_ERROR(FromGrpcStatus(stub.FindBlobs(&context, request, &response)));
  std::set<std::string> seen(response.present().begin(), response.present().end());
  std::vector<BlobInfo> missing;
  for (const BlobInfo& blob : blobs) {
    if (seen.insert(blob.sha256).second) missing.push_back(blob);
  }
  return missing;
}

absl::Status UploadBlob(v1::CoordinatorService::StubInterface& stub, const BlobInfo& blob,
                        const TransferOptions& options) {
  return WithRetries(options, [&] { return UploadOnce(stub, blob, options); });
}

absl::Status DownloadBlob(v1::CoordinatorService::StubInterface& stub, const std::string& sha256,
                          const std::string& path, const TransferOptions& options) {
  std::string part_path = path + ".part";
  PD_ASSIGN_OR_RETURN(PartialFile part, OpenPartial(part_path));
  bool resumed = part.bytes > 0;
  while (true) {
    absl::Status status =
        WithRetries(options, [&] { return ReceiveRest(stub, sha256, options, &part); });
    // What an earlier process left may be another blob's, or longer than this one.
    bool stale =
        resumed && (status.ok() || absl::IsInvalidArgument(status) || absl::IsOutOfRange(status));
    if (!status.ok() && !stale) {
      if (part.bytes == 0 || absl::IsNotFound(status)) unlink(part_path.c_str());
      return status;
    }
    if (status.ok()) {
      PD_ASSIGN_OR_RETURN(std::string found, HashOf(part));
      if (found == sha256) break;
      if (!resumed) {
        unlink(part_path.c_str());
        return MakeStatus(absl::StatusCode::kDataLoss,
                          "blob {} arrived with SHA-256 {}: it is damaged at the sender or on the "
                          "way",
                          sha256, found);
      }
    }
    resumed = false;  // once more, from nothing
    if (ftruncate(part.fd.get(), 0) != 0 || lseek(part.fd.get(), 0, SEEK_SET) != 0) {
      return SystemError("write", part_path, errno);
    }
    part.bytes = 0;
  }
  if (fsync(part.fd.get()) != 0) return SystemError("write", part_path, errno);
  if (rename(part_path.c_str(), path.c_str()) != 0) return SystemError("write", path, errno);
  return absl::OkStatus();
}

}  // namespace pipedream
