#include "common/plan/text_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/units.h"

namespace pipedream {
namespace {
constexpr size_t kWidth = 100;
}  // namespace

std::string AlignedColumns(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths(rows[0].size());
  for (const std::vector<std::string>& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      line += c < left ? fmt::format("{:<{}}", row[c], widths[c])
                       : fmt::format("{:>{}}", row[c], widths[c]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string WrappedText(std::string first, std::string_view text, size_t indent) {
  std::string out, line = std::move(first);
  bool fresh = true;  // nothing of `text` on this line yet
  while (!text.empty()) {
    const size_t blank = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(std::min(blank + 1, text.size()));
    if (!fresh && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line = std::string(indent, ' ');
      fresh = true;
    }
    if (!fresh) line += ' ';
    line += word;
    fresh = false;
  }
  return out + line + "\n";
}

std::string SecondsOrDash(double seconds) { return seconds == 0 ? "-" : FormatSeconds(seconds); }

}  // namespace pipedream
