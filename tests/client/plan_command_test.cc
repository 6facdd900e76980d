// `pipedream plan` and `pipedream profile` by files, without a coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/command_line.h"
#include "client/commands/commands.h"
#include "client/exit_codes.h"

namespace pipedream {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A chain: convolutions that compute, then a linear layer that holds the parameters.
constexpr char kGraph[] =
    "node1 -- Input0 -- forward_compute_time=0, backward_compute_time=0, activation_size=100000, "
    "parameter_size=0\n"
    "node2 -- Conv2d(a) -- forward_compute_time=10, backward_compute_time=20, "
    "activation_size=8000000, parameter_size=4000\n"
    "node3 -- Conv2d(b) -- forward_compute_time=10, backward_compute_time=20, "
    "activation_size=100000, parameter_size=4000\n"
    "node4 -- Linear(c) -- forward_compute_time=5, backward_compute_time=10, activation_size=4000, "
    "parameter_size=400000000\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n";

class PlanCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/plan-command-" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Write("net.graph.txt", kGraph);
    Write("cluster.yaml",
          "levels: [{count: 4, bandwidth_bytes_per_s: 1.25e9, latency_s: 1e-5}]\n"
          "device: {memory_bytes: 16e9}\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string File(const std::string& name) const { return folder_ + "/" + name; }

  int Run(std::vector<std::string> arguments) {
    std::istringstream in;
    out_.str("");
    err_.str("");
    CommandContext context;
    context.terminal = Terminal{&out_, &err_};
    context.server.flag = "127.0.0.1:1";  // nobody is there
    context.input = &in;
    context.clock = SystemClock();
    return RunCommandLine(arguments, context);
  }
  int Plan(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"plan", "--profile", File("net.graph.txt"), "--topology",
                                          File("cluster.yaml")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  std::string folder_;
  std::ostringstream out_, err_;
};

TEST_F(PlanCommandTest, PrintsEverythingAsJson) {
  ASSERT_EQ(Plan({"-o", "json"}), 0) << err();
  const json plan = json::parse(out());
  EXPECT_EQ(plan["kind"], "Plan");
  EXPECT_EQ(plan["rule"], "measured");
  for (const char* key : {"bottleneck_s", "config", "step_s", "planning_s", "optimality_gap"})
    EXPECT_TRUE(plan.contains(key)) << key;
  ASSERT_FALSE(plan["stages"].empty());
  int workers = 0;
  std::vector<int> nodes;
  for (const json& stage : plan["stages"]) {
    for (const char* key : {"nodes", "replicas", "devices", "compute_s", "memory_bytes", "versions",
                            "warmup", "node_names"})
      EXPECT_TRUE(stage.contains(key)) << key;
    EXPECT_EQ(stage["devices"].size(), stage["replicas"]);
    workers += stage["replicas"].get<int>();
    for (const json& node : stage["nodes"]) nodes.push_back(node);
  }
  EXPECT_LE(workers, 4);
  std::ranges::sort(nodes);
  EXPECT_EQ(nodes, (std::vector<int>{0, 1, 2}));
  ASSERT_FALSE(plan["alternatives"].empty());
  for (const json& other : plan["alternatives"]) EXPECT_TRUE(other.contains("bottleneck_s"));
}

// 60 ms on three of four workers, 15 ms and all the parameters on one.
TEST_F(PlanCommandTest, RulesOfTheLiteratureUseAllWorkersIfTold) {
  ASSERT_EQ(Plan({"--rule", "paper", "--workers-idle-ok=false", "-o", "json"}), 0) << err();
  const json plan = json::parse(out());
  EXPECT_EQ(plan["rule"], "paper");
  EXPECT_EQ(plan["config"], "3-1");
  EXPECT_NEAR(plan["bottleneck_s"].get<double>(), 0.020, 1e-12);
}

TEST_F(PlanCommandTest, TheTableSaysMoreIfAsked) {
  ASSERT_EQ(Plan(), 0) << err();
  EXPECT_THAT(out(), HasSubstr("Predicted: "));
  EXPECT_THAT(out(), testing::Not(HasSubstr("longest of it")));
  ASSERT_EQ(Plan({"--explain"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("longest of it"));
  std::istringstream lines(out());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST_F(PlanCommandTest, WhatIfAndMemoryLimitChangeTheCluster) {
  ASSERT_EQ(Plan({"-o", "json"}), 0);
  const double before = json::parse(out())["step_s"];
  ASSERT_EQ(Plan({"--what-if", "workers=8,speed=2", "-o", "json"}), 0) << err();
  EXPECT_LT(json::parse(out())["step_s"].get<double>(), before);
  EXPECT_EQ(Plan({"--what-if", "wrkers=8"}), kExitRejected);
  EXPECT_THAT(err(), HasSubstr("did you mean 'workers'"));
  EXPECT_EQ(Plan({"--memory-limit", "1MiB"}), kExitConflict);
  EXPECT_THAT(err(), HasSubstr("MiB"));
}

TEST_F(PlanCommandTest, ASavedPlanIsReckonedAnew) {
  ASSERT_EQ(Plan({"-o", "json", "--save", File("plan.yaml")}), 0) << err();
  const json made = json::parse(out());
  ASSERT_EQ(Plan({"-o", "json", "--plan", File("plan.yaml")}), 0) << err();
  const json again = json::parse(out());
  EXPECT_EQ(again["config"], made["config"]);
  EXPECT_DOUBLE_EQ(again["step_s"].get<double>(), made["step_s"].get<double>());
}

TEST_F(PlanCommandTest, SaysWhatIsWrongWithWhatItWasGiven) {
  EXPECT_EQ(Plan({"--rule", "best"}), kExitUsage);
  Write("cluster.yaml", "levels: [{count: 4}]");
  EXPECT_EQ(Plan(), kExitRejected);
  EXPECT_THAT(err(), HasSubstr("cluster.yaml:1: levels[0].bandwidth_bytes_per_s"));
  EXPECT_EQ(Run({"plan", "--profile", File("net.graph.txt")}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("no model"));
  EXPECT_EQ(Run({"plan", "--profile", File("gone"), "--topology", File("cluster.yaml")}),
            kExitRejected);
  EXPECT_THAT(err(), HasSubstr("gone"));
}

TEST_F(PlanCommandTest, AProfileIsShownAndSaved) {
  ASSERT_EQ(Run({"profile", "show", File("net.graph.txt"), "--save", File("net.json")}), 0)
      << err();
  EXPECT_THAT(out(), HasSubstr("Sum: 75 ms per microbatch"));
  EXPECT_THAT(out(), HasSubstr("node2"));
  const std::string table = out();
  ASSERT_EQ(Run({"profile", "show", File("net.json")}), 0) << err();
  EXPECT_EQ(out(), table);
  ASSERT_EQ(Plan({"-o", "json"}), 0);
  json published = json::parse(out());
  ASSERT_EQ(Run({"plan", "--profile", File("net.json"), "--topology", File("cluster.yaml"), "-o",
                 "json"}),
            0)
      << err();
  json saved = json::parse(out());
  published.erase("planning_s");
  saved.erase("planning_s");
  EXPECT_EQ(saved, published);
}

}  // namespace
}  // namespace pipedream
