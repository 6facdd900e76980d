// What the user's shell sets.
#pragma once

#include <cstdlib>
#include <string>

namespace pipedream {

// Empty where it is not set.
inline std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace pipedream
