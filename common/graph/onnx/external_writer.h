// Writes the external data file of an exported model, tensor by tensor.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/file.h"

namespace pipedream::onnx_import {

// Nothing appears at `path` before Commit; without it nothing stays behind.
class ExternalWriter {
 public:
  static absl::StatusOr<std::unique_ptr<ExternalWriter>> Create(const std::string& path);
  ~ExternalWriter();
  // The offset at which the bytes lie, a multiple of 4096 as mapping readers like it.
  absl::StatusOr<int64_t> Append(std::span<const std::byte> bytes);
  absl::Status Commit();

 private:
  ExternalWriter(std::string path, std::string temporary, UniqueFd fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}
  absl::Status Write(const char* data, size_t size);

  std::string path_;
  std::string temporary_;  // empty once committed
  UniqueFd fd_;
  int64_t size_ = 0;
};

}  // namespace pipedream::onnx_import
