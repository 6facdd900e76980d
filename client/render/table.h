// Aligned columns, as kubectl prints them: two spaces between, no frames, nothing truncated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipedream {

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Cells of one row; empty ones show as "-". REQUIRES: one per column.
  void Add(std::vector<std::string> cells);
  // Ends with a newline unless nothing is printed.
  std::string ToString(bool headers) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Control characters become blanks: user text (a job's name) must not move the cursor or add rows.
std::string OneLine(std::string text);

// Columns that `text` takes: UTF-8 characters, not bytes.
int DisplayWidth(std::string_view text);

}  // namespace pipedream
