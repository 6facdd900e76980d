// Text as tokens: a token is the rank of a character (Unicode code point) among the distinct
// characters of a vocabulary text, 0, 1, 2 ... in code point order.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace pipedream {

// Strict: overlong forms, surrogates and values above U+10FFFF are refused. kInvalidArgument names
// `path` and the byte offset of the first bad sequence.
absl::StatusOr<std::vector<char32_t>> DecodeUtf8(std::string_view text, std::string_view path);

// Ascending, distinct.
std::vector<char32_t> DistinctCharacters(std::vector<char32_t> text);

// kInvalidArgument names the first character that the vocabulary lacks and its position.
absl::StatusOr<std::vector<int32_t>> Tokenize(const std::vector<char32_t>& text,
                                              const std::vector<char32_t>& vocabulary,
                                              std::string_view path);

}  // namespace pipedream
