#include "client/render/table.h"

#include <algorithm>

#include "common/base/status.h"

namespace pipedream {

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

int DisplayWidth(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

void TextTable::Add(std::vector<std::string> cells) {
  PIPEDREAM_CHECK(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = cell.empty() ? "-" : OneLine(std::move(cell));
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString(bool headers) const {
  std::vector<std::vector<std::string>> rows;
  if (headers) {
    rows.emplace_back();
    for (const Column& column : columns_) rows.back().push_back(column.title);
  }
  rows.insert(rows.end(), rows_.begin(), rows_.end());
  std::vector<int> widths(columns_.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string padding(widths[i] - DisplayWidth(row[i]), ' ');
      if (i > 0) line += "  ";
      line += columns_[i].align == Align::kRight ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace pipedream
