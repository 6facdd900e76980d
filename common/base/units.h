// Numbers as people read and write them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace pipedream {

// 1536 -> "1.5 KiB"; exact below 1024 ("512 B").
std::string FormatBytes(int64_t bytes);
// 0.00123 -> "1.23 ms", 75 -> "1m15s", 3700 -> "1h01m".
std::string FormatSeconds(double seconds);
// "512", "64K", "1.5GiB", "2G" (K, M, G, T are powers of 1024, as in FormatBytes).
absl::StatusOr<int64_t> ParseBytes(std::string_view text);
// "90", "1.5s", "250ms", "50us", "2m", "2h".
absl::StatusOr<double> ParseSeconds(std::string_view text);
// Bytes per second from bits per second as networks are named: "25G" and "25Gbit/s" are 3.125e9,
// "100M", "9.6Kbit/s"; K, M, G, T are powers of 1000.
absl::StatusOr<double> ParseBitRate(std::string_view text);

}  // namespace pipedream
