#include "common/codec/field_check.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"

namespace pipedream {

FieldCheck::FieldCheck(std::string_view message, int64_t index)
    : message_(fmt::format("{}[{}]", message, index)) {}

void FieldCheck::Fail(std::string_view field, std::string_view found, std::string_view expected) {
  if (!status_.ok()) return;
  status_ = InvalidArgument("{}.{}: found {}, expected {}", message_, field, found, expected);
}

FieldCheck& FieldCheck::Count(std::string_view field, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    Fail(field, fmt::format("{}", value), fmt::format("{} to {}", least, most));
  }
  return *this;
}

FieldCheck& FieldCheck::Finite(std::string_view field, double value) {
  if (!std::isfinite(value)) Fail(field, fmt::format("{}", value), "a finite number");
  return *this;
}

FieldCheck& FieldCheck::NotNegative(std::string_view field, double value) {
  if (!std::isfinite(value) || value < 0) {
    Fail(field, fmt::format("{}", value), "a finite number, 0 or more");
  }
  return *this;
}

FieldCheck& FieldCheck::Listed(std::string_view field, int size, int most) {
  if (size > most) Fail(field, fmt::format("{} entries", size), fmt::format("at most {}", most));
  return *this;
}

FieldCheck& FieldCheck::Text(std::string_view field, std::string_view value, int64_t most_bytes) {
  if (static_cast<int64_t>(value.size()) > most_bytes) {
    Fail(field, fmt::format("{} bytes", value.size()), fmt::format("at most {}", most_bytes));
  } else if (value.find('\0') != std::string_view::npos) {
    Fail(field, "a zero byte", "text");
  }
  return *this;
}

FieldCheck& FieldCheck::Hash(std::string_view field, std::string_view value) {
  auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (!value.empty() && (value.size() != 64 || !std::all_of(value.begin(), value.end(), hex))) {
    Fail(field, fmt::format("{} bytes that are not a SHA-256", value.size()),
         "64 lower-case hexadecimal digits");
  }
  return *this;
}

FieldCheck& FieldCheck::Require(std::string_view field, bool condition, std::string_view expected) {
  if (!condition) Fail(field, "something else", expected);
  return *this;
}

}  // namespace pipedream
