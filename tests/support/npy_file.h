// NPY files (format 1.0) for tests that read data from disk.
#pragma once

#include <string>

#include "common/graph/types.h"

namespace pipedream {

// The bytes of an NPY file; `type` as "<f4", `shape` as "(3, 2)". REQUIRES: `data` holds `bytes`.
std::string NpyBytes(const std::string& type, const std::string& shape, const void* data,
                     size_t bytes);
// REQUIRES: float32, float64 or int64.
std::string NpyBytes(const Tensor& tensor);

// Writes such a file; checks that it worked.
void WriteNpy(const std::string& path, const std::string& type, const std::string& shape,
              const void* data, size_t bytes);

}  // namespace pipedream
