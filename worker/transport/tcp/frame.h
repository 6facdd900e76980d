// What a tcp channel's stream is made of: frames from sender to receiver, control bytes
// (failure.h: ControlReader) back. One byte comes back for each slot that the receiver has
// released, so the sender's own ring limits what is in flight.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "worker/transport/channel.h"

namespace pipedream {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

struct FrameHeader {
  MessageKey key;
  bool abort = false;  // the payload is an encoded cause, the key means nothing
  uint64_t bytes = 0;  // of the payload that follows
};

inline constexpr size_t kFrameHeaderBytes = 24;
using FrameHeaderBytes = std::array<char, kFrameHeaderBytes>;

FrameHeaderBytes EncodeFrameHeader(const FrameHeader& header);
// kUnavailable if it is no header, or announces more than `max_message_bytes` (for an abort, more
// than kMaxCauseBytes).
absl::StatusOr<FrameHeader> DecodeFrameHeader(const FrameHeaderBytes& bytes,
                                              size_t max_message_bytes);

}  // namespace pipedream
