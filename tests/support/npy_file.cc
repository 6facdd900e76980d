#include "tests/support/npy_file.h"

#include <fmt/format.h>

#include "common/base/file.h"
#include "common/base/status.h"

namespace pipedream {

std::string NpyBytes(const std::string& type, const std::string& shape, const void* data,
                     size_t bytes) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  if (bytes > 0) out.append(static_cast<const char*>(data), bytes);
  return out;
}

std::string NpyBytes(const Tensor& tensor) {
  const bool supported = tensor.dtype() == DataType::kInt64 ||
                         tensor.dtype() == DataType::kFloat64 ||
                         tensor.dtype() == DataType::kFloat32;
  PIPEDREAM_CHECK(supported);
  const char* type = tensor.dtype() == DataType::kInt64     ? "<i8"
                     : tensor.dtype() == DataType::kFloat64 ? "<f8"
                                                            : "<f4";
  std::string shape;
  for (int64_t d : tensor.shape().dims()) shape += fmt::format("{}, ", d);
  return NpyBytes(type, "(" + shape + ")", tensor.bytes().data(), tensor.bytes().size());
}

void WriteNpy(const std::string& path, const std::string& type, const std::string& shape,
              const void* data, size_t bytes) {
  PIPEDREAM_CHECK(WriteFileAtomic(path, NpyBytes(type, shape, data, bytes)).ok());
}

}  // namespace pipedream
