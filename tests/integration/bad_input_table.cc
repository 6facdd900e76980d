#include "tests/integration/bad_input_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

#include "common/base/file.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

constexpr char kDoc[] = PIPEDREAM_SOURCE_DIR "/docs/bad-input.md";

constexpr char kIntroduction[] = R"(# Bad input, and what it gets

Every row was tried; `tests/integration/bad_input_test.cc` tries it again and compares. Model, data, flags and job file are checked
before a job exists: first by the command, then, where that needs the data, by the coordinator. What only shows at work
fails the job, and `--wait` or `--follow` return 100. `JOB` stands for the job's id, `HOST:PORT` for the coordinator's address.
)";

bool Writing() { return std::getenv("PIPEDREAM_WRITE_DOCS") != nullptr; }

// What differs from run to run.
std::string Steady(std::string text, const std::string& server) {
  for (size_t at; (at = text.find(server)) != std::string::npos;)
    text.replace(at, server.size(), "HOST:PORT");
  text = std::regex_replace(text, std::regex("job-[0-9]+-[0-9a-f]+"), "JOB");
  text = std::regex_replace(text, std::regex("uploaded [^\n]*\n"), "");
  return std::regex_replace(text, std::regex("-nan"), "nan");
}

std::string CommandLine(const std::vector<std::string>& words) {
  std::string line = "$ pipedream";
  for (const std::string& word : words)
    line += word.find(' ') == std::string::npos ? " " + word : fmt::format(" '{}'", word);
  return line + "\n";
}

// Collects rows and writes the document when all tests have run.
class DocWriter : public testing::Environment {
 public:
  void TearDown() override {
    if (!Writing() || text_.empty()) return;
    PIPEDREAM_CHECK(WriteFileAtomic(kDoc, kIntroduction + text_).ok());
  }
  void Add(const std::string& section) { text_ += section; }

 private:
  std::string text_;
};

DocWriter* Doc() {
  static auto* doc = static_cast<DocWriter*>(testing::AddGlobalTestEnvironment(new DocWriter));
  return doc;
}
DocWriter* const registered_before_main = Doc();

// From the row's heading to the next one.
std::string DocumentedSection(const std::string& title) {
  std::string doc = ReadFile(kDoc, 1 << 20).value_or("");
  size_t begin = doc.find(fmt::format("\n## {}\n", title));
  if (begin == std::string::npos) return "";
  return doc.substr(begin, doc.find("\n## ", begin + 4) - begin);
}

void CheckDocumented(const BadInput& row) {
  std::string section = DocumentedSection(row.title);
  std::vector<std::string> parts = row.says;
  parts.push_back(CommandLine(row.command));
  parts.push_back(fmt::format("\nExit code {}", row.code));
  for (const std::string& part : parts)
    EXPECT_THAT(section, testing::HasSubstr(part))
        << "docs/bad-input.md is not up to date; bad_input_table.h says how to make it anew";
}

}  // namespace

void TryBadInput(const BadInput& row, const std::string& folder, const std::string& server) {
  SCOPED_TRACE(row.title);
  CommandOptions options;
  options.folder = folder;
  options.environment = {{"PIPEDREAM_SERVER", server}};
  std::string session;
  for (const std::vector<std::string>& words : row.before) {
    CommandResult result = RunProgram("pipedream", words, options);
    EXPECT_EQ(result.code, 0) << result.err;
    session += CommandLine(words) + Steady(result.out + result.err, server);
  }
  CommandResult result = RunProgram("pipedream", row.command, options);
  std::string said = Steady(result.out + result.err, server);
  EXPECT_EQ(result.code, row.code) << said;
  for (const std::string& part : row.says) EXPECT_THAT(said, testing::HasSubstr(part));
  const std::string temporary = std::filesystem::temp_directory_path().string() + "/";
  EXPECT_THAT(said, testing::Not(testing::HasSubstr(temporary)))
      << "names files that are not the user's";
  session += CommandLine(row.command) + said;
  if (Writing())
    Doc()->Add(
        fmt::format("\n## {}\n\n```\n{}```\nExit code {}\n", row.title, session, result.code));
  else
    CheckDocumented(row);
}

}  // namespace pipedream
