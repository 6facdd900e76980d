#include "client/render/table.h"

#include <gtest/gtest.h>

namespace pipedream {
namespace {

TEST(TextTable, AlignsColumnsAndTruncatesNothing) {
  TextTable table({{"ID"}, {"COUNT", TextTable::Align::kRight}, {"REASON"}});
  table.Add({"job-with-a-very-long-identifier-0123456789", "7", "waits"});
  table.Add({"j", "12345", ""});
  // The id is 42 characters wide, two spaces follow.
  std::string gap(42, ' ');
  EXPECT_EQ(table.ToString(true), "ID" + gap + "COUNT  REASON\n" +
                                      "job-with-a-very-long-identifier-0123456789      7  waits\n" +
                                      "j" + gap + " 12345  -\n");
}

TEST(TextTable, CountsCharactersNotBytes) {
  TextTable table({{"N"}, {"X"}});
  table.Add({"größe", "1"});
  table.Add({"abcde", "2"});
  EXPECT_EQ(table.ToString(false), "größe  1\nabcde  2\n");
}

TEST(TextTable, UserTextCannotBreakOutOfItsRow) {
  TextTable table({{"N"}, {"X"}});
  table.Add({"a\nb\x1b[2J", "1"});
  EXPECT_EQ(table.ToString(false), "a b [2J  1\n");
}

TEST(TextTable, NothingToPrintIsEmpty) {
  EXPECT_EQ(TextTable({{"A"}}).ToString(false), "");
  EXPECT_EQ(TextTable({{"A"}}).ToString(true), "A\n");
}

}  // namespace
}  // namespace pipedream
