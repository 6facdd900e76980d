#include "common/graph/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

using Json = nlohmann::json;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";

struct NamedType {
  std::string_view name;
  DataType type;
};
constexpr NamedType kTypes[] = {
    {"F32", DataType::kFloat32}, {"F64", DataType::kFloat64}, {"I8", DataType::kInt8},
    {"U8", DataType::kUint8},    {"I32", DataType::kInt32},   {"I64", DataType::kInt64},
    {"BOOL", DataType::kBool},
};

std::optional<DataType> FindType(std::string_view name) {
  for (const NamedType& t : kTypes)
    if (t.name == name) return t.type;
  return std::nullopt;
}

std::optional<std::string_view> NameOf(DataType type) {
  for (const NamedType& t : kTypes)
    if (t.type == type) return t.name;
  return std::nullopt;
}

// Refuses what nlohmann's parser lets pass (twice the same name) or recurses into (deep nesting).
class HeaderFilter {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > 3) too_deep_ = true;
    if (event == Json::parse_event_t::key && depth == 1 &&
        !names_.insert(parsed.get<std::string>()).second)
      duplicate_ = parsed.get<std::string>();
    return !too_deep_;
  }
  absl::Status status() const {
    if (too_deep_) return InvalidArgument("safetensors: the header is nested too deeply");
    if (duplicate_) return InvalidArgument("safetensors: tensor '{}' is there twice", *duplicate_);
    return absl::OkStatus();
  }

 private:
  std::set<std::string> names_;
  std::optional<std::string> duplicate_;
  bool too_deep_ = false;
};

absl::StatusOr<Json> ParseHeader(std::span<const std::byte> bytes, uint64_t* data_begin) {
  if (bytes.size() < 8)
    return InvalidArgument("safetensors: {} bytes are too few for a header", bytes.size());
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | std::to_integer<uint64_t>(bytes[i]);
  if (length > kMaxHeaderBytes || length > bytes.size() - 8)
    return InvalidArgument("safetensors: a header of {} bytes does not fit the file of {} bytes",
                           length, bytes.size());
  *data_begin = 8 + length;
  const char* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  HeaderFilter filter;
  Json header = Json::parse(
      text, text + length,
      [&](int depth, Json::parse_event_t event, Json& parsed) {
        return filter(depth, event, parsed);
      },
      /*allow_exceptions=*/false);
  PD_RETURN_IF_ERROR(filter.status());
  if (!header.is_object()) return InvalidArgument("safetensors: the header is not a JSON object");
  return header;
}

struct Entry {
  std::string name;
  DataType type;
  Shape shape;
  uint64_t begin;
  uint64_t end;
};

// A non-negative integer of at most 62 bits.
bool ReadCount(const Json& json, int64_t* out) {
  if (!json.is_number_unsigned()) return false;
  uint64_t value = json.get<uint64_t>();
  if (value > uint64_t{1} << 62) return false;
  *out = static_cast<int64_t>(value);
  return true;
}

absl::StatusOr<Entry> ParseEntry(const std::string& name, const Json& json, uint64_t data_bytes) {
  auto bad = [&](std::string_view what) {
    return InvalidArgument("safetensors: tensor '{}': {}", name, what);
  };
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    return bad("expected exactly dtype, shape and data_offsets");
  const Json& dtype = json["dtype"];
  std::optional<DataType> type =
      dtype.is_string() ? FindType(dtype.get_ref<const std::string&>()) : std::nullopt;
  if (!type)
    return bad(fmt::format("element type {} is not one of F32 F64 I8 U8 I32 I64 BOOL",
                           dtype.dump(-1, ' ', true, Json::error_handler_t::replace)));
  const Json& offsets = json["data_offsets"];
  int64_t begin = 0, end = 0;
  if (!offsets.is_array() || offsets.size() != 2 || !ReadCount(offsets[0], &begin) ||
      !ReadCount(offsets[1], &end))
    return bad("data_offsets are not two counts");
  if (begin > end || static_cast<uint64_t>(end) > data_bytes)
    return bad(fmt::format("offsets [{}, {}) are not inside the {} bytes of data", begin, end,
                           data_bytes));
  const Json& shape = json["shape"];
  if (!shape.is_array() || shape.size() > 64) return bad("shape is not a list of dimensions");
  std::vector<int64_t> dims(shape.size());
  for (size_t i = 0; i < dims.size(); ++i)
    if (!ReadCount(shape[i], &dims[i])) return bad("shape has a dimension that is not a count");
  int64_t elements = 0;
  if (!CheckedElements(dims, std::numeric_limits<int64_t>::max() / 8, &elements) ||
      elements * static_cast<int64_t>(SizeOf(*type)) != end - begin)
    return bad(fmt::format("shape {} of {} does not take the {} bytes that it has",
                           Shape(dims).ToString(), NameOf(*type).value(), end - begin));
  if (begin % SizeOf(*type) != 0)
    return bad(fmt::format("offset {} is not aligned to its element size", begin));
  return Entry{name, *type, Shape(std::move(dims)), static_cast<uint64_t>(begin),
               static_cast<uint64_t>(end)};
}

// Sorted by offset, tensors must tile the data without overlap, gap or rest.
absl::Status CheckTiling(std::vector<Entry>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin < at)
      return InvalidArgument("safetensors: tensor '{}' overlaps the one before it", e.name);
    if (e.begin > at)
      return InvalidArgument("safetensors: {} unused bytes before tensor '{}'", e.begin - at,
                             e.name);
    at = e.end;
  }
  if (at != data_bytes)
    return InvalidArgument("safetensors: {} bytes after the last tensor", data_bytes - at);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, Tensor>> ParseSafetensors(std::shared_ptr<const void> owner,
                                                               std::span<const std::byte> bytes) {
  uint64_t data_begin = 0;
  PD_ASSIGN_OR_RETURN(Json header, ParseHeader(bytes, &data_begin));
  uint64_t data_bytes = bytes.size() - data_begin;
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadata) {
      if (!json.is_object()) return InvalidArgument("safetensors: __metadata__ is not an object");
      continue;
    }
    PD_ASSIGN_OR_RETURN(Entry entry, ParseEntry(name, json, data_bytes));
    entries.push_back(std::move(entry));
  }
  PD_RETURN_IF_ERROR(CheckTiling(entries, data_bytes));
  if (owner == nullptr) owner = std::make_shared<int>(0);  // a Tensor without owner counts as empty
  std::map<std::string, Tensor> tensors;
  for (Entry& e : entries) {
    std::span<const std::byte> data = bytes.subspan(data_begin + e.begin, e.end - e.begin);
    bool aligned = reinterpret_cast<uintptr_t>(data.data()) % SizeOf(e.type) == 0;
    tensors.emplace(std::move(e.name), aligned ? Tensor(e.type, std::move(e.shape), owner, data)
                                               : Tensor::Copy(e.type, std::move(e.shape), data));
  }
  return tensors;
}

absl::StatusOr<std::map<std::string, Tensor>> ReadSafetensors(const std::string& path) {
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  auto tensors = ParseSafetensors(file, file->bytes());
  if (!tensors.ok()) return Annotate(tensors.status(), fmt::format("'{}'", path));
  return tensors;
}

std::string SerializeSafetensors(const std::map<std::string, Tensor>& tensors) {
  std::vector<const std::pair<const std::string, Tensor>*> order;
  for (const auto& entry : tensors) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return SizeOf(a->second.dtype()) > SizeOf(b->second.dtype());
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t offset = 0;
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    uint64_t end = offset + tensor.bytes().size();
    header[name] = {{"dtype", std::string(NameOf(tensor.dtype()).value())},
                    {"shape", tensor.shape().dims()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  // Names that are not UTF-8 must not throw; their bad bytes are replaced.
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string out;
  out.reserve(8 + text.size() + offset);
  for (int i = 0; i < 8; ++i) out += static_cast<char>(text.size() >> (8 * i) & 0xff);
  out += text;
  for (const auto* entry : order) {
    std::span<const std::byte> data = entry->second.bytes();
    out.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return out;
}

absl::Status WriteSafetensors(const std::string& path,
                              const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadata) return InvalidArgument("a tensor may not be called '{}'", name);
    if (!NameOf(tensor.dtype()))
      return InvalidArgument("tensor '{}': safetensors cannot hold {}", name,
                             ToString(tensor.dtype()));
  }
  return WriteFileAtomic(path, SerializeSafetensors(tensors));
}

}  // namespace pipedream
