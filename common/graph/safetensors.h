// The safetensors container: 8 bytes little-endian header length N, N bytes of JSON
// {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}}, then raw little-endian
// row-major data that the offsets count from. Pure functions; thread-safe.
//
// Reading is strict, files come from other machines: every error is kInvalidArgument and names the
// tensor. Refused: a header beyond 100 MB or the file, anything but objects of that form, unknown
// element types, shapes whose size is not end - begin, offsets outside the data, tensors that
// overlap, gaps, bytes after the last tensor, and data not aligned to its element size.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "common/graph/types.h"

namespace pipedream {

// The tensors share a mapping of the file, which must not be changed while they live. Also
// kNotFound and other errors of the file system.
absl::StatusOr<std::map<std::string, Tensor>> ReadSafetensors(const std::string& path);

// `bytes` is a whole file that stays valid while `owner` lives; the tensors share it, except those
// whose memory happens to be misaligned, which are copied.
absl::StatusOr<std::map<std::string, Tensor>> ParseSafetensors(std::shared_ptr<const void> owner,
                                                               std::span<const std::byte> bytes);

// Widest element type first, then by name, so that every tensor is aligned. Equal maps give equal
// bytes. kInvalidArgument for an element type that the container lacks (opaque), or the reserved
// name
// "__metadata__". Written atomically (WriteFileAtomic).
absl::Status WriteSafetensors(const std::string& path,
                              const std::map<std::string, Tensor>& tensors);
// REQUIRES: the element types and names are such as WriteSafetensors takes.
std::string SerializeSafetensors(const std::map<std::string, Tensor>& tensors);

}  // namespace pipedream
