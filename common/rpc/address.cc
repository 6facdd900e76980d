#include "common/rpc/address.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <charconv>

#include "common/base/status.h"

namespace pipedream {
namespace {

absl::Status BadAddress(std::string_view text, std::string_view what) {
  return InvalidArgument(
      "address \"{}\": {}; expected host:port, such as 127.0.0.1:7070 or "
      "[::1]:7070",
      text.substr(0, 200), what);
}

}  // namespace

absl::StatusOr<HostPort> ParseAddress(std::string_view text) {
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return BadAddress(text, "it has no port");
  std::string_view host = text.substr(0, colon);
  std::string_view port_text = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return BadAddress(text, "an IPv6 host needs brackets");
  }
  if (host.empty()) return BadAddress(text, "it has no host");
  if (host.find_first_of(" \t\r\n/[]") != std::string_view::npos || host.size() > 253) {
    return BadAddress(text, "that is no host name");
  }
  int port = -1;
  auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size() || port < 0 ||
      port > 65535) {
    return BadAddress(
        text, fmt::format("port \"{}\" is not a number from 0 to 65535", port_text.substr(0, 50)));
  }
  return HostPort{std::string(host), port};
}

std::string FormatAddress(const HostPort& address) {
  bool brackets = address.host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", address.host, address.port)
                  : fmt::format("{}:{}", address.host, address.port);
}

bool IsLoopback(std::string_view host) {
  if (host == "localhost") return true;
  std::string text(host);
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace pipedream
