// Enumerators travel as words, so that messages read well and unknown ones are refused by name.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace pipedream {

template <typename E>
struct EnumName {
  E value;
  std::string_view name;
};

template <typename E, size_t N>
std::string_view NameOf(const std::array<EnumName<E>, N>& names, E value) {
  for (const auto& entry : names) {
    if (entry.value == value) return entry.name;
  }
  CheckFailed(__FILE__, __LINE__, "enumerator has a name");
}

// kInvalidArgument names the field, the word found and all that are known.
template <typename E, size_t N>
absl::StatusOr<E> ValueOf(const std::array<EnumName<E>, N>& names, std::string_view field,
                          std::string_view name) {
  std::string known;
  for (const auto& entry : names) {
    if (entry.name == name) return entry.value;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", entry.name);
  }
  return InvalidArgument("{}: unknown \"{}\"; known are {}", field, name.substr(0, 100), known);
}

}  // namespace pipedream
