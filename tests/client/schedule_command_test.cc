// `pipedream schedule`: needs no coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/command_line.h"
#include "client/exit_codes.h"
#include "common/base/file.h"
#include "common/schedule/schedules.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class ScheduleCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/schedule-command-" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  int Run(std::vector<std::string> arguments, const std::string& input = "") {
    std::istringstream in(input);
    out_.str("");
    err_.str("");
    CommandContext context;
    context.terminal = Terminal{&out_, &err_};
    context.server.flag = "127.0.0.1:1";  // nobody is there
    context.input = &in;
    context.clock = &clock_;
    arguments.insert(arguments.begin(), "schedule");
    return RunCommandLine(arguments, context);
  }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  std::string folder_;
  FakeClock clock_;
  std::ostringstream out_, err_;
};

TEST_F(ScheduleCommandTest, ListNamesAllSchedules) {
  ASSERT_EQ(Run({"list"}), 0) << err();
  std::string names;
  for (const ScheduleInfo& info : AllSchedules()) {
    EXPECT_THAT(out(), HasSubstr(std::string(info.summary)));
    names += std::string(info.name) + "\n";
  }
  ASSERT_EQ(Run({"list", "-o", "name"}), 0);
  EXPECT_EQ(out(), names);
  ASSERT_EQ(Run({"list", "-o", "json"}), 0);
  json list = json::parse(out());
  EXPECT_EQ(list["kind"], "ScheduleList");
  ASSERT_EQ(list["items"].size(), AllSchedules().size());
  EXPECT_EQ(list["items"][0]["name"], "pipedream");
  EXPECT_EQ(list["items"][0]["synchronous"], false);
  ASSERT_EQ(Run({"list", "-o", "yaml"}), 0);
  EXPECT_THAT(out(), HasSubstr("kind: ScheduleList"));
}

// The picture and the bubble of the closed form: (p - 1)(tF + tB) = 3 over 6.
TEST_F(ScheduleCommandTest, ShowDrawsAndMeasures) {
  ASSERT_EQ(Run({"show", "1f1b", "--stages", "2", "--microbatches", "2"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("   0\n"
                               "s0 01..aa.bb\n"
                               "s1 .0aa1bb..\n"));
}

TEST_F(ScheduleCommandTest, ShowSaysTimeMemoryAndStaleness) {
  ASSERT_EQ(Run({"show", "pipedream", "--stages", "3", "--microbatches", "6", "-o", "json"}), 0);
  json report = json::parse(out());
  EXPECT_EQ(report["kind"], "ScheduleReport");
  EXPECT_EQ(report["schedule"], "pipedream");
  EXPECT_DOUBLE_EQ(report["makespan"], 18);
  EXPECT_DOUBLE_EQ(report["bubble"], 0);
  EXPECT_EQ(report["peak_activations"], 3);
  EXPECT_EQ(report["weight_copies"], 3);
  EXPECT_EQ(report["staleness"], 2);
  ASSERT_EQ(report["devices"].size(), 3u);
  EXPECT_EQ(report["devices"][2]["weight_copies"], 1);
  ASSERT_EQ(Run({"show", "zb_v", "--stages", "2", "--microbatches", "4"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("2 devices with 2 stages each, 1 minibatch of 4 microbatches"));
  EXPECT_THAT(out(), HasSubstr("PEAK ACTIVATIONS"));
}

TEST_F(ScheduleCommandTest, CostsAndDepthsAreTaken) {
  // One stage: 3 microbatches of 2 + 3 + 4, and an update of 5.
  ASSERT_EQ(Run({"show", "gpipe", "--stages", "1", "--microbatches", "3", "--forward", "2",
                 "--backward-input", "3", "--backward-weight", "4", "--step", "5", "-o", "json"}),
            0)
      << err();
  EXPECT_DOUBLE_EQ(json::parse(out())["makespan"], 32);
  ASSERT_EQ(Run({"show", "1f1b", "--warmup", "6,4,2,0", "--link", "0.5", "-o", "json"}), 0);
  EXPECT_DOUBLE_EQ(json::parse(out())["makespan"], 36);
  EXPECT_EQ(json::parse(out())["peak_activations"], 7);
  ASSERT_EQ(Run({"show", "1f1b", "--replicas", "2,1", "--stages", "2", "--microbatches", "4",
                 "--table", "text"}),
            0);
  EXPECT_EQ(out(),
            "schedule 1f1b policy=flush replicas=2,1 minibatches_per_epoch=1 epochs=1 "
            "microbatches=4 evaluation=0 warmup=rule norm=no\n"
            "s0.r0: F0 F2 B0 B2 U0\n"
            "s0.r1: F1 F3 B1 B3 U0\n"
            "s1.r0: F0 B0 F1 B1 F2 B2 F3 B3 U0\n");
}

TEST_F(ScheduleCommandTest, TablesGoOutAndComeIn) {
  ASSERT_EQ(Run({"show", "zb_h1", "--stages", "2", "--microbatches", "3", "--table", "csv"}), 0);
  EXPECT_EQ(out(),
            "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n"
            "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n");
  const std::string csv = out();
  const std::string path = folder_ + "/mine.csv";
  std::ofstream(path) << csv;
  ASSERT_EQ(Run({"show", "--file", path, "--table", "csv"}), 0) << err();
  EXPECT_EQ(out(), csv);
  ASSERT_EQ(Run({"show", "--file", "-", "--minibatches", "2", "--table", "text"}, csv), 0) << err();
  EXPECT_THAT(out(), HasSubstr("W2 U0 F3 F4 I3"));
  ASSERT_EQ(Run({"show", "--file", "-", "--minibatches", "2", "-o", "json"}, csv), 0) << err();
  // Two minibatches of 3 x 3 and a bubble of (p - 1)(tF + tI - tW) each.
  EXPECT_DOUBLE_EQ(json::parse(out())["makespan"], 20);
}

TEST_F(ScheduleCommandTest, FaultsInFilesAreNamed) {
  const std::string path = folder_ + "/mine.txt";
  std::ofstream(path) << "0F0,0B0\n1F0,1Z0\n";
  EXPECT_EQ(Run({"show", "--file", path}), kExitRejected);
  EXPECT_THAT(err(), HasSubstr(path + ": schedule CSV, row 2 cell 2: '1Z0'"));
  EXPECT_EQ(Run({"show", "--file", "-"}, "0F0\n1F0,1B0\n"), kExitRejected);
  EXPECT_THAT(err(), HasSubstr("csv"));
  EXPECT_EQ(Run({"show", "--file", folder_ + "/none"}), kExitNotFound);
  EXPECT_EQ(out(), "");
}

TEST_F(ScheduleCommandTest, TraceIsForPerfetto) {
  const std::string path = folder_ + "/trace.json";
  ASSERT_EQ(Run({"show", "zb_v", "--stages", "2", "--link", "0.5", "--trace", path}), 0) << err();
  ASSERT_OK_AND_ASSIGN(std::string text, ReadFile(path, 1 << 20));
  const json trace = json::parse(text);
  int forwards = 0;
  for (const json& event : trace["traceEvents"]) {
    forwards += event["ph"] == "X" && event["cat"] == "forward" ? 1 : 0;
  }
  EXPECT_EQ(forwards, 8 * 4);
  EXPECT_NE(Run({"show", "zb_v", "--trace", folder_ + "/none/trace.json"}), 0);
}

// Bubbles by formula: 1F1B (p-1)(tF+tB), ZB-H1 (p-1)(tF+tI-tW), interleaved (p-1)(tF+tB)/v.
TEST_F(ScheduleCommandTest, CompareMeasuresAllSchedules) {
  ASSERT_EQ(
      Run({"compare", "--stages", "4", "--microbatches", "8", "--link", "0,0.5", "-o", "json"}), 0)
      << err();
  EXPECT_THAT(err(), HasSubstr("data_parallel is left out"));
  json comparison = json::parse(out());
  EXPECT_EQ(comparison["kind"], "ScheduleComparison");
  std::map<std::string, json> at_zero;
  for (const json& item : comparison["items"]) {
    if (item["link"] == 0) {
      at_zero[item["schedule"].get<std::string>() + std::to_string(item["chunks"].get<int>())] =
          item;
    }
  }
  EXPECT_EQ(at_zero.size(), 12u);  // without data_parallel, with interleaved x2 and x4
  EXPECT_EQ(comparison["items"].size(), 24u);
  EXPECT_DOUBLE_EQ(at_zero["1f1b1"]["makespan"], 24 + 9);
  EXPECT_DOUBLE_EQ(at_zero["zb_h11"]["makespan"], 24 + 3);
  EXPECT_DOUBLE_EQ(at_zero["interleaved2"]["makespan"], 24 + 4.5);
  EXPECT_DOUBLE_EQ(at_zero["interleaved4"]["makespan"], 24 + 2.25);
  EXPECT_DOUBLE_EQ(at_zero["pipedream1"]["makespan"], 24);
  EXPECT_DOUBLE_EQ(at_zero["2bw1"]["weight_copies"], 2);
}

TEST_F(ScheduleCommandTest, CompareHasATableForPeopleAndOneForDocuments) {
  const std::vector<std::string> command = {
      "compare", "--stages", "4", "--microbatches", "8,16", "--link", "0", "--chunks", "2"};
  ASSERT_EQ(Run(command), 0) << err();
  EXPECT_THAT(out(), HasSubstr("4 devices, 8 microbatches, ideal 24\nSCHEDULE"));
  EXPECT_THAT(out(), HasSubstr("4 devices, 16 microbatches, ideal 48\nSCHEDULE"));
  EXPECT_THAT(out(), HasSubstr("WEIGHT COPIES"));
  std::vector<std::string> markdown = command;
  markdown.insert(markdown.end(), {"-o", "markdown"});
  ASSERT_EQ(Run(markdown), 0) << err();
  EXPECT_THAT(out(), HasSubstr("**4 devices, 8 microbatches, ideal 24**\n\n"
                               "| schedule | link 0 | peak activations | weight copies | "
                               "staleness | messages |\n|---|--:|--:|--:|--:|--:|\n"));
  EXPECT_THAT(out(), HasSubstr("| `1f1b` | 33 (27.3 %) | 4 | 1 | 0 | 6 |\n"));
  EXPECT_THAT(out(), Not(HasSubstr("interleaved x4")));
}

TEST_F(ScheduleCommandTest, TheDocumentShowsWhatIsPrinted) {
  ASSERT_OK_AND_ASSIGN(std::string document,
                       ReadFile(PIPEDREAM_SOURCE_DIR "/docs/schedules.md", 1 << 20));
  ASSERT_EQ(Run({"show", "zb_h1", "--stages", "4", "--microbatches", "6"}), 0) << err();
  EXPECT_THAT(document, HasSubstr(out()));
  ASSERT_EQ(Run({"compare", "--stages", "4,8", "--microbatches", "8,32", "--link", "0,0.25,0.5,1",
                 "-o", "markdown"}),
            0)
      << err();
  EXPECT_THAT(document, HasSubstr(out()));
  for (const ScheduleInfo& info : AllSchedules()) {
    EXPECT_THAT(document, HasSubstr("| `" + std::string(info.name) + "` |"));
  }
}

TEST_F(ScheduleCommandTest, UsageErrorsExplainThemselves) {
  struct Case {
    std::vector<std::string> arguments;
    const char* message;
    int code = kExitUsage;
  };
  for (const Case& c : std::vector<Case>{
           {{"show"}, "expected the NAME of a schedule or --file"},
           {{"show", "1f1b", "--file", "x"}, "--file excludes NAME"},
           {{"show", "1f1b", "--table", "xml"}, "xml"},
           {{"show", "1f1b", "--table", "csv", "-o", "json"}, "leave out -o"},
           {{"show", "1f1b", "-o", "markdown"}, "-o markdown is for"},
           {{"show", "1f1b", "-o", "name"}, "-o name is not for"},
           {{"compare", "-o", "name"}, "-o name is not for"},
           {{"compare", "--stages", "0"}, "--stages"},
           {{"compare", "--link", "-1"}, "--link"},
           {{"shwo"}, "did you mean show?"},
           {{"show", "1f1c"}, "schedule '1f1c' is unknown", kExitRejected},
           {{"show", "zb_v", "--chunks", "3"}, "chunks: 3", kExitRejected},
           {{"show", "pipedream", "--table", "csv"}, "policy: stash", kExitRejected},
           {{"show", "1f1b", "--stages", "1024", "--microbatches", "2048"},
            "1024 stages and 2048 microbatches are too many",
            kExitRejected},
       }) {
    EXPECT_EQ(Run(c.arguments), c.code) << c.message;
    EXPECT_THAT(err(), HasSubstr(c.message));
    EXPECT_EQ(out(), "");
  }
}

}  // namespace
}  // namespace pipedream
