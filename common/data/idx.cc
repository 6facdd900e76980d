#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/status.h"
#include "common/data/array_file.h"

namespace pipedream {
namespace {

struct IdxType {
  uint8_t code;
  size_t size;  // in the file
  DataType dtype;
};
constexpr IdxType kIdxTypes[] = {
    {0x08, 1, DataType::kUint8}, {0x09, 1, DataType::kInt8},    {0x0B, 2, DataType::kInt32},
    {0x0C, 4, DataType::kInt32}, {0x0D, 4, DataType::kFloat32}, {0x0E, 8, DataType::kFloat64},
};

const IdxType* FindIdxType(uint8_t code) {
  for (const IdxType& type : kIdxTypes)
    if (type.code == code) return &type;
  return nullptr;
}

uint32_t ReadBigEndian32(const char* p) {
  const auto* b = reinterpret_cast<const unsigned char*>(p);
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
}

// Reverses the bytes of every element.
void SwapElements(std::string* bytes, size_t size) {
  if (size == 1) return;
  for (size_t i = 0; i + size <= bytes->size(); i += size)
    std::reverse(bytes->begin() + i, bytes->begin() + i + size);
}

std::string WidenInt16(const std::string& bytes) {
  std::string out(bytes.size() * 2, '\0');
  for (size_t i = 0; i < bytes.size() / 2; ++i) {
    int16_t narrow;
    std::memcpy(&narrow, bytes.data() + 2 * i, 2);
    const int32_t wide = narrow;
    std::memcpy(out.data() + 4 * i, &wide, 4);
  }
  return out;
}

}  // namespace

bool LooksLikeIdx(std::string_view content) {
  return content.size() >= 4 && content[0] == 0 && content[1] == 0 &&
         FindIdxType(static_cast<uint8_t>(content[2])) != nullptr;
}

absl::StatusOr<RawArray> ParseIdx(std::string content, std::string_view path) {
  if (content.size() < 4 || content[0] != 0 || content[1] != 0) {
    return InvalidArgument(
        "{}: not an IDX file: it must start with two zero bytes, an element type and a rank", path);
  }
  const auto code = static_cast<uint8_t>(content[2]);
  const IdxType* type = FindIdxType(code);
  if (type == nullptr) {
    return InvalidArgument(
        "{}: IDX element type 0x{:02x} is unknown; known are 0x08 (uint8), 0x09 (int8), 0x0b "
        "(int16), 0x0c (int32), 0x0d (float32), 0x0e (float64)",
        path, code);
  }
  const int rank = static_cast<uint8_t>(content[3]);
  if (rank < 1 || rank > kMaxArrayRank) {
    return InvalidArgument("{}: IDX rank is {}, must be 1 to {}", path, rank, kMaxArrayRank);
  }
  const size_t header = 4 + 4 * static_cast<size_t>(rank);
  if (content.size() < header) {
    return InvalidArgument("{}: IDX header of rank {} needs {} bytes, the file has {}", path, rank,
                           header, content.size());
  }
  std::vector<int64_t> dims(rank);
  for (int i = 0; i < rank; ++i) dims[i] = ReadBigEndian32(content.data() + 4 + 4 * i);
  const Shape shape(dims);
  const auto payload = static_cast<int64_t>(content.size() - header);
  const auto element = static_cast<int64_t>(type->size);
  int64_t elements = 0;
  if (!CheckedElements(dims, std::numeric_limits<int64_t>::max() / 16, &elements) ||
      elements > payload / element || elements * element != payload) {
    return InvalidArgument(
        "{}: the IDX header says {} elements of {} byte(s), but {} bytes follow it; the file is "
        "cut short, or not what its header says",
        path, shape.ToString(), element, payload);
  }
  content.erase(0, header);
  SwapElements(&content, type->size);  // the project runs on little-endian machines only
  if (type->size == 2) content = WidenInt16(content);
  return RawArray{type->dtype, shape, std::move(content)};
}

}  // namespace pipedream
