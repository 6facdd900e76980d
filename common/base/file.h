// Files: whole reads with a size limit, atomic writes, read-only mappings, and paths that may not
// leave their root.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace pipedream {

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Errors name the path and the system's reason; kNotFound, kPermissionDenied or kUnavailable.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);
absl::StatusOr<int64_t> FileSize(const std::string& path);
// Writes beside `path`, fsyncs and renames: readers see the old content or the new one.
absl::Status WriteFileAtomic(const std::string& path, std::string_view content);
absl::Status MakeDirectories(const std::string& path);

// A file mapped read-only; alive as long as anyone holds it. Empty files map to an empty span.
class MappedFile {
 public:
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  size_t size_;
};

// `relative` below `root`, resolved through symbolic links; kInvalidArgument if it is absolute or
// leads outside, kNotFound if it does not exist.
absl::StatusOr<std::string> ResolveUnder(const std::string& root, const std::string& relative);

// The file's bytes, gunzipped if they start with gzip's magic. kResourceExhausted beyond max_bytes.
absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path, int64_t max_bytes);

}  // namespace pipedream
