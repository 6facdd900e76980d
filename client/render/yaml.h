#pragma once

#include <string>
#include <string_view>

namespace pipedream {

// The same value as block-style YAML; text that YAML would read as something else is quoted.
// REQUIRES: `json` is valid JSON.
std::string JsonToYaml(std::string_view json);

}  // namespace pipedream
