#pragma once

#include <string_view>

namespace pipedream {

// Of all programs built from this tree; CMakeLists.txt says the same.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace pipedream
