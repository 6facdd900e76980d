#include "coordinator/store/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/base/status.h"
#include "common/base/units.h"

namespace pipedream {
namespace {

absl::Status Failed(std::string_view action, const std::string& path, int error) {
  auto code =
      error == ENOSPC ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable;
  return MakeStatus(code, "blob store: cannot {} '{}': {}", action, path, std::strerror(error));
}

absl::Status SyncFolder(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return Failed("sync", path, errno);
  return absl::OkStatus();
}

}  // namespace

bool IsSha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(const std::string& folder,
                                                           const BlobLimits& limits) {
  std::error_code ignored;
  std::filesystem::remove_all(folder + "/tmp", ignored);
  PD_RETURN_IF_ERROR(MakeDirectories(folder + "/tmp"));
  return std::unique_ptr<BlobStore>(new BlobStore(folder, limits));
}

std::string BlobStore::FinalPath(const std::string& sha256) const {
  return fmt::format("{}/{}/{}", folder_, sha256.substr(0, 2), sha256);
}

bool BlobStore::Has(const std::string& sha256) const {
  return IsSha256(sha256) && access(FinalPath(sha256).c_str(), R_OK) == 0;
}

absl::StatusOr<std::string> BlobStore::PathOf(const std::string& sha256) const {
  if (!IsSha256(sha256))
    return InvalidArgument("'{}' is not a SHA-256 of 64 lower-case hexadecimal digits", sha256);
  if (!Has(sha256)) return WithReason(NotFound("there is no blob {}", sha256), "BLOB_MISSING");
  return FinalPath(sha256);
}

absl::StatusOr<std::unique_ptr<BlobStore::Upload>> BlobStore::Begin(const std::string& sha256,
                                                                    int64_t bytes) {
  if (!IsSha256(sha256))
    return InvalidArgument("'{}' is not a SHA-256 of 64 lower-case hexadecimal digits", sha256);
  if (bytes < 0) return InvalidArgument("a blob of {} bytes", bytes);
  if (bytes > limits_.max_bytes)
    return ResourceExhausted("a blob of {} is more than the limit of {}", FormatBytes(bytes),
                             FormatBytes(limits_.max_bytes));
  struct statvfs info;
  if (statvfs(folder_.c_str(), &info) == 0) {
    int64_t free = static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
    if (free - bytes < limits_.keep_free_bytes)
      return WithReason(
          ResourceExhausted(
              "{} more would leave less than {} free in '{}' ({} free now); make room "
              "or give another --state-dir",
              FormatBytes(bytes), FormatBytes(limits_.keep_free_bytes), folder_, FormatBytes(free)),
          "DISK_FULL");
  }
  std::string path = folder_ + "/tmp/upload-XXXXXX";
  UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) return Failed("create", path, errno);
  return std::unique_ptr<Upload>(new Upload(this, sha256, bytes, path, std::move(fd)));
}

BlobStore::Upload::~Upload() {
  if (!path_.empty()) unlink(path_.c_str());
}

absl::Status BlobStore::Upload::Write(std::string_view data) {
  if (written_ + static_cast<int64_t>(data.size()) > bytes_)
    return WithReason(
        InvalidArgument("blob {}: more data than the {} bytes announced", sha256_, bytes_),
        "BLOB_CORRUPT");
  hash_.Update(data);
  written_ += static_cast<int64_t>(data.size());
  while (!data.empty()) {
    ssize_t n = write(fd_.get(), data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("write", path_, errno);
    data.remove_prefix(n);
  }
  return absl::OkStatus();
}

absl::Status BlobStore::Upload::Finish() {
  if (written_ != bytes_)
    return WithReason(
        InvalidArgument("blob {}: {} bytes arrived, {} were announced", sha256_, written_, bytes_),
        "BLOB_CORRUPT");
  std::string found = hash_.HexDigest();
  if (found != sha256_)
    return WithReason(InvalidArgument("blob {}: its content has the SHA-256 {}", sha256_, found),
                      "BLOB_CORRUPT");
  if (fchmod(fd_.get(), 0444) != 0 || fsync(fd_.get()) != 0) return Failed("sync", path_, errno);
  std::string final_path = store_->FinalPath(sha256_);
  std::string shard = std::filesystem::path(final_path).parent_path().string();
  PD_RETURN_IF_ERROR(MakeDirectories(shard));
  if (rename(path_.c_str(), final_path.c_str()) != 0) return Failed("rename", path_, errno);
  path_.clear();
  PD_RETURN_IF_ERROR(SyncFolder(shard));
  return SyncFolder(store_->folder_);
}

absl::StatusOr<std::string> BlobStore::AddText(std::string_view text) {
  std::string sha256 = Sha256Hex(text);
  if (Has(sha256)) return sha256;
  PD_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload,
                      Begin(sha256, static_cast<int64_t>(text.size())));
  PD_RETURN_IF_ERROR(upload->Write(text));
  PD_RETURN_IF_ERROR(upload->Finish());
  return sha256;
}

absl::StatusOr<std::string> BlobStore::AddFile(const std::string& path) {
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  std::string_view content(reinterpret_cast<const char*>(file->bytes().data()),
                           file->bytes().size());
  std::string hash = Sha256Hex(content);
  if (Has(hash)) return hash;
  PD_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload, Begin(hash, content.size()));
  PD_RETURN_IF_ERROR(upload->Write(content));
  PD_RETURN_IF_ERROR(upload->Finish());
  return hash;
}

absl::StatusOr<std::string> BlobStore::MakeWorkFolder() {
  std::string path = folder_ + "/tmp/work-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return Failed("create", path, errno);
  return path;
}

}  // namespace pipedream
