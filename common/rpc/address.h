// Network addresses as text: "host:port", "[::1]:port".
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace pipedream {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
  bool operator==(const HostPort&) const = default;
};

// Port 0 (any free one) is allowed where it makes sense to the caller. kInvalidArgument shows the
// text and the two forms that are understood.
absl::StatusOr<HostPort> ParseAddress(std::string_view text);
// The inverse; adds brackets where the host holds a colon.
std::string FormatAddress(const HostPort& address);
// "localhost", 127.0.0.0/8 and ::1. Names are not resolved: any other name is not loopback.
bool IsLoopback(std::string_view host);

}  // namespace pipedream
