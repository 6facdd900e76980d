// Numbers that both ends of a connection must agree on.
#pragma once

namespace pipedream {

// Of one message. Files travel in chunks; a plan or a profile of a large model fits.
inline constexpr int kMaxMessageBytes = 16 << 20;
// Of headers and trailers: error messages travel there. The library's own limit is 8 KiB.
inline constexpr int kMaxMetadataBytes = 512 << 10;
// Data in one message of a file transfer.
inline constexpr int kMaxChunkBytes = 1 << 20;
// A connection without traffic for this long is probed; a peer that is silent for the time-out is
// gone.
inline constexpr int kKeepaliveMs = 10'000;
inline constexpr int kKeepaliveTimeoutMs = 10'000;

}  // namespace pipedream
