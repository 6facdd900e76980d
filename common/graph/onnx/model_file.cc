#include "common/graph/onnx/model_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <limits>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/graph/onnx/proto.h"

namespace pipedream::onnx_import {
namespace {

namespace io = google::protobuf::io;

bool Parse(std::span<const std::byte> bytes, int depth, onnx::ModelProto* model) {
  io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  io::CodedInputStream coded(&stream);
  coded.SetRecursionLimit(depth);
  return model->ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

bool LooksLikeText(std::span<const std::byte> bytes) {
  size_t n = std::min<size_t>(bytes.size(), 512);
  return std::all_of(bytes.begin(), bytes.begin() + n, [](std::byte b) {
    unsigned c = std::to_integer<unsigned>(b);
    return (c >= 32 && c < 127) || c == '\n' || c == '\r' || c == '\t';
  });
}

// What the outermost fields say about a file that does not parse; empty if they are in order.
std::string OuterDamage(std::span<const std::byte> bytes) {
  io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
  while (uint32_t tag = in.ReadTag()) {
    int at = in.CurrentPosition();
    int field = static_cast<int>(tag >> 3);
    if (field == 0 || field > 64) return "is not an ONNX model (not a protobuf message)";
    uint64_t value = 0;
    switch (tag & 7) {
      case 0:
        if (!in.ReadVarint64(&value)) return "is truncated";
        break;
      case 1:
      case 5:
        if (!in.Skip((tag & 7) == 1 ? 8 : 4)) return "is truncated";
        break;
      case 2: {
        if (!in.ReadVarint64(&value)) return "is truncated";
        int64_t left = static_cast<int64_t>(bytes.size()) - in.CurrentPosition();
        if (value > static_cast<uint64_t>(left))
          return fmt::format("is truncated: field {} at byte {} needs {} bytes, {} are left", field,
                             at, value, left);
        in.Skip(static_cast<int>(value));
        break;
      }
      default:
        return "is not an ONNX model (not a protobuf message)";
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> ParseModel(std::span<const std::byte> bytes,
                                                                   const std::string& path) {
  if (bytes.empty()) return InvalidArgument("model file '{}' is empty (0 bytes)", path);
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    return ResourceExhausted(
        "model file '{}' has {} bytes; protobuf stops at 2 GiB: export the weights as external "
        "data",
        path, bytes.size());
  auto model = std::make_shared<onnx::ModelProto>();
  if (Parse(bytes, kMaxMessageDepth, model.get())) return model;
  if (LooksLikeText(bytes))
    return InvalidArgument("model file '{}' is not an ONNX model: it looks like a text file", path);
  if (std::string damage = OuterDamage(bytes); !damage.empty())
    return InvalidArgument("model file '{}' {}", path, damage);
  // Deep enough to tell nesting from damage, shallow enough for any stack.
  onnx::ModelProto deep;
  if (Parse(bytes, 2000, &deep))
    return InvalidArgument(
        "model file '{}' has subgraphs nested too deeply: more than {} levels of messages", path,
        kMaxMessageDepth);
  return InvalidArgument(
      "model file '{}' is damaged (its protobuf messages do not parse), or nests subgraphs too "
      "deeply (more than {} levels)",
      path, kMaxMessageDepth);
}

absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> ReadModelFile(const std::string& path,
                                                                      const ImportLimits& limits) {
  PD_ASSIGN_OR_RETURN(int64_t size, FileSize(path));
  if (size > limits.max_model_bytes)
    return ResourceExhausted("model file '{}' has {} bytes, more than the limit of {}", path, size,
                             limits.max_model_bytes);
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  return ParseModel(file->bytes(), path);
}

}  // namespace pipedream::onnx_import
