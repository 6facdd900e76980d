#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pipedream {

// Columns two blanks apart; the first `left` are left-aligned, the others right-aligned. REQUIRES:
// at least one row, all of one length.
std::string AlignedColumns(const std::vector<std::vector<std::string>>& rows, size_t left);

// `first` and then the words of `text`, broken at blanks before column 100; later lines are
// indented by `indent`.
std::string WrappedText(std::string first, std::string_view text, size_t indent);

// FormatSeconds, but "-" for 0.
std::string SecondsOrDash(double seconds);

}  // namespace pipedream
