#pragma once

#include <absl/status/statusor.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

#include "common/base/status.h"

namespace pipedream {

// A page token is the number of the last job shown; jobs below it follow.
inline absl::StatusOr<int64_t> ParsePageToken(const std::string& token) {
  if (token.empty()) return std::numeric_limits<int64_t>::max();
  int64_t number = 0;
  auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
  if (error != std::errc() || end != token.data() + token.size() || number < 0)
    return InvalidArgument("page_token '{}' is not one that a page before gave", token);
  return number;
}

}  // namespace pipedream
