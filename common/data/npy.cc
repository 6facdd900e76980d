#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/data/array_file.h"

namespace pipedream {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyType {
  std::string_view descr;
  DataType dtype;
};
constexpr NpyType kNpyTypes[] = {
    {"<f4", DataType::kFloat32}, {"<f8", DataType::kFloat64}, {"<i4", DataType::kInt32},
    {"<i8", DataType::kInt64},   {"|u1", DataType::kUint8},   {"|i1", DataType::kInt8},
};

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads the Python dict literal that NumPy writes: three known keys, each once. Nothing else of
// Python is understood.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<NpyHeader> Parse() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    if (!Take('{')) return std::nullopt;
    while (!Take('}')) {
      std::optional<std::string> key = String();
      if (!key || !Take(':')) return std::nullopt;
      bool* seen = *key == "descr" ? &descr : *key == "fortran_order" ? &order : &shape;
      if (*seen || (seen == &shape && *key != "shape")) return std::nullopt;
      *seen = true;
      if (seen == &descr) {
        std::optional<std::string> value = String();
        if (!value) return std::nullopt;
        header.descr = *value;
      } else if (seen == &order) {
        if (Word("True")) {
          header.fortran_order = true;
        } else if (!Word("False")) {
          return std::nullopt;
        }
      } else if (!Tuple(&header.shape)) {
        return std::nullopt;
      }
      if (!Take(',') && !Peek('}')) return std::nullopt;
    }
    if (!descr || !order || !shape) return std::nullopt;
    return header;
  }

 private:
  void SkipSpace() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool Peek(char c) {
    SkipSpace();
    return !text_.empty() && text_[0] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool Word(std::string_view word) {
    SkipSpace();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> String() {
    const char quote = Peek('"') ? '"' : '\'';
    if (!Take(quote)) return std::nullopt;
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) return std::nullopt;
    std::string out(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return out;
  }
  bool Tuple(std::vector<int64_t>* out) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      SkipSpace();
      int64_t value = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0 || out->size() > kMaxArrayRank) return false;
      text_.remove_prefix(end - text_.data());
      out->push_back(value);
      if (!Take(',') && !Peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
};

absl::StatusOr<DataType> ElementType(std::string_view descr, std::string_view path) {
  for (const NpyType& type : kNpyTypes)
    if (type.descr == descr) return type.dtype;
  return InvalidArgument(
      "{}: NPY element type '{}' is not supported; supported are <f4 <f8 <i4 <i8 |u1 |i1 "
      "(little-endian); convert with array.astype",
      path, descr);
}

}  // namespace

bool LooksLikeNpy(std::string_view content) { return content.starts_with(kMagic); }

absl::StatusOr<RawArray> ParseNpy(std::string content, std::string_view path) {
  if (!LooksLikeNpy(content) || content.size() < 10) {
    return InvalidArgument("{}: not an NPY file: it must start with \\x93NUMPY and a version",
                           path);
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(content[i])); };
  const size_t version = byte(6);
  if (version != 1 && version != 2) {
    return InvalidArgument("{}: NPY version {}.{} is not supported; versions 1 and 2 are", path,
                           version, byte(7));
  }
  const size_t start = version == 1 ? 10 : 12;
  if (content.size() < start) return InvalidArgument("{}: the NPY header is cut short", path);
  size_t length = byte(8) | byte(9) << 8;
  if (version == 2) length |= byte(10) << 16 | byte(11) << 24;
  if (length > content.size() - start) {
    return InvalidArgument("{}: the NPY header says it has {} bytes, the file has {} more", path,
                           length, content.size() - start);
  }
  std::optional<NpyHeader> header =
      HeaderParser(std::string_view(content).substr(start, length)).Parse();
  if (!header) {
    return InvalidArgument(
        "{}: the NPY header is not a dict of 'descr', 'fortran_order' and 'shape' with at most {} "
        "axes",
        path, kMaxArrayRank);
  }
  PD_ASSIGN_OR_RETURN(const DataType dtype, ElementType(header->descr, path));
  if (header->fortran_order) {
    return InvalidArgument(
        "{}: the array is in Fortran order; save numpy.ascontiguousarray(array) instead", path);
  }
  const Shape shape(header->shape);
  if (shape.rank() < 1 || shape.rank() > kMaxArrayRank) {
    return InvalidArgument("{}: the array has {} axes, must have 1 to {}; axis 0 counts samples",
                           path, shape.rank(), kMaxArrayRank);
  }
  const auto payload = static_cast<int64_t>(content.size() - start - length);
  const auto element = static_cast<int64_t>(SizeOf(dtype));
  int64_t elements = 0;
  if (!CheckedElements(header->shape, std::numeric_limits<int64_t>::max() / 16, &elements) ||
      elements > payload / element || elements * element != payload) {
    return InvalidArgument(
        "{}: the NPY header says {} elements of {} byte(s), but {} bytes follow it; the file is "
        "cut short, or not what its header says",
        path, shape.ToString(), element, payload);
  }
  content.erase(0, start + length);
  return RawArray{dtype, shape, std::move(content)};
}

}  // namespace pipedream
