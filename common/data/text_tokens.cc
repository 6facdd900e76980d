#include "common/data/text_tokens.h"

#include <algorithm>

#include "common/base/status.h"

namespace pipedream {
namespace {

// Bytes of the sequence that starts with `lead`; 0 if none may start so.
int SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// The code point at text[i], advancing i; false if the sequence is malformed (i stays).
bool Next(std::string_view text, size_t* i, char32_t* out) {
  const auto lead = static_cast<unsigned char>(text[*i]);
  const int length = SequenceLength(lead);
  if (length == 0 || text.size() - *i < static_cast<size_t>(length)) return false;
  char32_t code = length == 1 ? lead : lead & (0x7F >> length);
  for (int k = 1; k < length; ++k) {
    const auto c = static_cast<unsigned char>(text[*i + k]);
    if ((c & 0xC0) != 0x80) return false;
    code = code << 6 | (c & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    return false;
  }
  *i += length;
  *out = code;
  return true;
}

}  // namespace

absl::StatusOr<std::vector<char32_t>> DecodeUtf8(std::string_view text, std::string_view path) {
  size_t characters = 0;
  for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  std::vector<char32_t> out;
  out.reserve(characters);
  for (size_t i = 0; i < text.size();) {
    char32_t code = 0;
    if (!Next(text, &i, &code)) {
      return InvalidArgument("{}: byte 0x{:02x} at offset {} is not valid UTF-8", path,
                             static_cast<unsigned char>(text[i]), i);
    }
    out.push_back(code);
  }
  return out;
}

std::vector<char32_t> DistinctCharacters(std::vector<char32_t> text) {
  std::sort(text.begin(), text.end());
  text.erase(std::unique(text.begin(), text.end()), text.end());
  return text;
}

absl::StatusOr<std::vector<int32_t>> Tokenize(const std::vector<char32_t>& text,
                                              const std::vector<char32_t>& vocabulary,
                                              std::string_view path) {
  std::vector<int32_t> out(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto it = std::lower_bound(vocabulary.begin(), vocabulary.end(), text[i]);
    if (it == vocabulary.end() || *it != text[i]) {
      return InvalidArgument(
          "{}: character U+{:04X} at position {} is not in the vocabulary of {} characters; name "
          "a vocabulary text that has it",
          path, static_cast<uint32_t>(text[i]), i, vocabulary.size());
    }
    out[i] = static_cast<int32_t>(it - vocabulary.begin());
  }
  return out;
}

}  // namespace pipedream
