#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipedream {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
int EditDistance(std::string_view a, std::string_view b);

// The closest of `known` (the first of equals), for "did you mean"; empty if none is given.
std::string NearestName(std::string_view word, const std::vector<std::string>& known);

}  // namespace pipedream
