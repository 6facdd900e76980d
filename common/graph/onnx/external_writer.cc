#include "common/graph/onnx/external_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/status.h"

namespace pipedream::onnx_import {

absl::StatusOr<std::unique_ptr<ExternalWriter>> ExternalWriter::Create(const std::string& path) {
  std::string temporary = path + ".tmp-XXXXXX";
  UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid())
    return Unavailable("cannot create a file for '{}': {}", path, std::strerror(errno));
  fchmod(fd.get(), 0644);
  return std::unique_ptr<ExternalWriter>(
      new ExternalWriter(path, std::move(temporary), std::move(fd)));
}

ExternalWriter::~ExternalWriter() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status ExternalWriter::Write(const char* data, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd_.get(), data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      auto code =
          errno == ENOSPC ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable;
      return MakeStatus(code, "cannot write '{}': {}", path_, std::strerror(errno));
    }
    data += n;
    size -= static_cast<size_t>(n);
    size_ += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ExternalWriter::Append(std::span<const std::byte> bytes) {
  static constexpr char kZeros[4096] = {};
  if (int64_t over = size_ % 4096; over != 0)
    PD_RETURN_IF_ERROR(Write(kZeros, static_cast<size_t>(4096 - over)));
  int64_t offset = size_;
  PD_RETURN_IF_ERROR(Write(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return offset;
}

absl::Status ExternalWriter::Commit() {
  if (fsync(fd_.get()) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return Unavailable("cannot finish '{}': {}", path_, std::strerror(errno));
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace pipedream::onnx_import
