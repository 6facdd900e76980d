#include "common/graph/types.h"

#include <fmt/format.h>

#include <cstring>

#include "common/base/status.h"

namespace pipedream {

size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kInt32: return 4;
    case DataType::kFloat64:
    case DataType::kInt64: return 8;
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kBool:
    case DataType::kOpaque: return 1;
  }
  return 1;
}

bool IsFloat(DataType type) { return type == DataType::kFloat32 || type == DataType::kFloat64; }

std::string_view ToString(DataType type) {
  switch (type) {
    case DataType::kFloat32: return "float32";
    case DataType::kFloat64: return "float64";
    case DataType::kInt8: return "int8";
    case DataType::kUint8: return "uint8";
    case DataType::kInt32: return "int32";
    case DataType::kInt64: return "int64";
    case DataType::kBool: return "bool";
    case DataType::kOpaque: return "opaque";
  }
  return "unknown";
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (int64_t d : dims_) n *= d;
  return n;
}

std::string Shape::ToString() const { return fmt::format("[{}]", fmt::join(dims_, ", ")); }

bool CheckedElements(std::span<const int64_t> dims, int64_t limit, int64_t* elements) {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d < 0 || __builtin_mul_overflow(n, d, &n) || n > limit) return false;
  }
  *elements = n;
  return true;
}

Tensor::Tensor(DataType dtype, Shape shape, std::shared_ptr<const void> owner,
               std::span<const std::byte> data)
    : dtype_(dtype), shape_(std::move(shape)), owner_(std::move(owner)), data_(data) {
  PIPEDREAM_CHECK(owner_ != nullptr);
  PIPEDREAM_CHECK(static_cast<int64_t>(data.size()) ==
                  shape_.elements() * static_cast<int64_t>(SizeOf(dtype)));
}

Tensor Tensor::Copy(DataType dtype, Shape shape, std::span<const std::byte> data) {
  // 8-byte elements, so that every type is aligned.
  auto owner = std::make_shared<std::vector<uint64_t>>((data.size() + 7) / 8 + 1);
  if (!data.empty()) std::memcpy(owner->data(), data.data(), data.size());
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(owner->data()), data.size());
  return Tensor(dtype, std::move(shape), std::move(owner), bytes);
}

}  // namespace pipedream
