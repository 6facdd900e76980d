#include "worker/transport/tcp/frame.h"

#include <cstring>

#include "common/base/status.h"
#include "worker/transport/failure.h"

namespace pipedream {
namespace {
// magic 4, kind 1, zero 3, index 8, bytes 8
constexpr uint32_t kFrameMagic = 0x31666470;  // "pdf1"
constexpr uint8_t kAbortKind = 0xff;
}  // namespace

FrameHeaderBytes EncodeFrameHeader(const FrameHeader& header) {
  FrameHeaderBytes out{};
  uint8_t kind = header.abort ? kAbortKind : static_cast<uint8_t>(header.key.kind);
  std::memcpy(out.data(), &kFrameMagic, 4);
  std::memcpy(out.data() + 4, &kind, 1);
  std::memcpy(out.data() + 8, &header.key.index, 8);
  std::memcpy(out.data() + 16, &header.bytes, 8);
  return out;
}

absl::StatusOr<FrameHeader> DecodeFrameHeader(const FrameHeaderBytes& bytes,
                                              size_t max_message_bytes) {
  FrameHeader header;
  uint32_t magic = 0;
  uint8_t kind = 0;
  std::memcpy(&magic, bytes.data(), 4);
  std::memcpy(&kind, bytes.data() + 4, 1);
  std::memcpy(&header.key.index, bytes.data() + 8, 8);
  std::memcpy(&header.bytes, bytes.data() + 16, 8);
  if (magic != kFrameMagic || bytes[5] != 0 || bytes[6] != 0 || bytes[7] != 0) {
    return Unavailable("the peer does not speak the channel protocol");
  }
  header.abort = kind == kAbortKind;
  if (!header.abort && kind > static_cast<uint8_t>(MessageKind::kProbe)) {
    return Unavailable("the peer sent a message of unknown kind {}", kind);
  }
  if (!header.abort) header.key.kind = static_cast<MessageKind>(kind);
  size_t limit = header.abort ? kMaxCauseBytes : max_message_bytes;
  if (header.bytes > limit) {
    return Unavailable("the peer announced {} bytes but a slot holds {}", header.bytes, limit);
  }
  return header;
}

}  // namespace pipedream
