#include "common/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/status.h"

namespace pipedream {
namespace {

absl::Status ErrnoStatus(std::string_view action, const std::string& path, int error) {
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (error == ENOENT || error == ENOTDIR) code = absl::StatusCode::kNotFound;
  if (error == EACCES || error == EPERM) code = absl::StatusCode::kPermissionDenied;
  if (error == ENOSPC) code = absl::StatusCode::kResourceExhausted;
  return MakeStatus(code, "{} '{}': {}", action, path, std::strerror(error));
}

absl::Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("cannot write", path, errno);
    content.remove_prefix(n);
  }
  if (fsync(fd) != 0) return ErrnoStatus("cannot sync", path, errno);
  return absl::OkStatus();
}

}  // namespace

void UniqueFd::Reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

absl::StatusOr<int64_t> FileSize(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus("cannot read", path, errno);
  if (!S_ISREG(info.st_mode)) return InvalidArgument("'{}' is not a regular file", path);
  return static_cast<int64_t>(info.st_size);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  PD_ASSIGN_OR_RETURN(int64_t size, FileSize(path));
  if (size > max_bytes)
    return ResourceExhausted("'{}' has {} bytes, more than the limit of {}", path, size, max_bytes);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("cannot read", path, errno);
  std::string content(size, '\0');
  size_t done = 0;
  while (done < content.size()) {
    ssize_t n = read(fd.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("cannot read", path, errno);
    if (n == 0) break;  // shrank meanwhile
    done += n;
  }
  content.resize(done);
  return content;
}

absl::Status WriteFileAtomic(const std::string& path, std::string_view content) {
  std::string temporary = path + ".tmp-XXXXXX";
  UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("cannot create a file for", path, errno);
  fchmod(fd.get(), 0644);
  absl::Status written = WriteAll(fd.get(), content, path);
  if (written.ok() && rename(temporary.c_str(), path.c_str()) != 0)
    written = ErrnoStatus("cannot rename into", path, errno);
  if (!written.ok()) unlink(temporary.c_str());
  return written;
}

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus("cannot create folder", path, error.value());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  PD_ASSIGN_OR_RETURN(int64_t size, FileSize(path));
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("cannot read", path, errno);
  void* data = nullptr;
  if (size > 0) {
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return ErrnoStatus("cannot map", path, errno);
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(static_cast<const std::byte*>(data), static_cast<size_t>(size)));
}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<std::byte*>(data_), size_);
}

absl::StatusOr<std::string> ResolveUnder(const std::string& root, const std::string& relative) {
  namespace fs = std::filesystem;
  if (relative.empty() || fs::path(relative).is_absolute() ||
      relative.find('\0') != std::string::npos)
    return InvalidArgument("path '{}' must be relative to '{}'", relative, root);
  std::error_code error;
  fs::path base = fs::canonical(root, error);
  if (error) return ErrnoStatus("cannot resolve", root, error.value());
  // Lexically first, so that nothing outside is even looked at.
  fs::path lexical = fs::path(relative).lexically_normal();
  if (lexical.begin() != lexical.end() && *lexical.begin() == "..")
    return InvalidArgument("path '{}' leads outside '{}'", relative, root);
  fs::path full = fs::canonical(base / lexical, error);
  if (error) return ErrnoStatus("cannot read", (base / lexical).string(), error.value());
  auto [end, unused] = std::mismatch(base.begin(), base.end(), full.begin(), full.end());
  if (end != base.end()) return InvalidArgument("path '{}' leads outside '{}'", relative, root);
  return full.string();
}

absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path, int64_t max_bytes) {
  PD_ASSIGN_OR_RETURN(std::string raw, ReadFile(path, max_bytes));
  if (raw.size() < 2 || raw[0] != '\x1f' || raw[1] != '\x8b') return raw;
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return Internal("zlib does not start");
  std::string out;
  std::string chunk(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(raw.data());
  stream.avail_in = static_cast<uInt>(raw.size());
  int code = Z_OK;
  absl::Status status;
  while (code != Z_STREAM_END && status.ok()) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    code = inflate(&stream, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END) {
      status = InvalidArgument("'{}' is not a complete gzip file: {}", path,
                               stream.msg ? stream.msg : "it ends too early");
      break;
    }
    out.append(chunk.data(), chunk.size() - stream.avail_out);
    if (static_cast<int64_t>(out.size()) > max_bytes)
      status = ResourceExhausted("'{}' unpacks to more than the limit of {} bytes", path, max_bytes);
  }
  inflateEnd(&stream);
  if (!status.ok()) return status;
  return out;
}

}  // namespace pipedream
