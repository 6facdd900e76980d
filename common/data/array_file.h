// Array files in memory: IDX and NPY, parsed without trusting them.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/graph/types.h"

namespace pipedream {

// An array in host byte order, row-major; axis 0 counts the samples.
struct RawArray {
  DataType dtype = DataType::kUint8;
  Shape shape;
  std::string bytes;
};

inline constexpr int kMaxArrayRank = 8;

bool LooksLikeIdx(std::string_view content);
bool LooksLikeNpy(std::string_view content);

// The whole content of a file; `path` is for messages. kInvalidArgument says which header field is
// wrong, or how many bytes the header promises and how many follow. 16-bit IDX elements become
// int32.
absl::StatusOr<RawArray> ParseIdx(std::string content, std::string_view path);
// Versions 1 and 2, little-endian f4 f8 i4 i8, u1 i1, C order.
absl::StatusOr<RawArray> ParseNpy(std::string content, std::string_view path);

}  // namespace pipedream
