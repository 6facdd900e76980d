#include "common/plan/plan_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace pipedream {
namespace {

using testing::HasSubstr;

Plan Sample() {
  Plan plan;
  plan.schedule = "pipedream";
  plan.rule = "paper";
  plan.stages.resize(2);
  plan.stages[0].nodes = {0, 1, 2, 3, 4, 5, 6, 8};
  plan.stages[0].first_node_name = "conv1";
  plan.stages[0].last_node_name = "pool2";
  plan.stages[0].workers = {"w0", "w1", "w2"};
  plan.stages[0].warmup = 1;
  plan.stages[0].versions = 2;
  plan.stages[0].compute_s = 0.0345;
  plan.stages[0].sync_s = 0.002;
  plan.stages[0].send_s = 0.001;
  plan.stages[0].sent_bytes = 2048;
  plan.stages[0].parameter_bytes = 1024;
  plan.stages[0].memory = {2048, 1024, 0, 4096, 4096, 512};
  plan.stages[1].nodes = {7};
  plan.stages[1].first_node_name = plan.stages[1].last_node_name = "fc";
  plan.stages[1].workers = {"w3"};
  plan.stages[1].compute_s = 0.01;
  plan.step_s = 0.0115;
  plan.bubble = 0.25;
  plan.bottleneck_s = 0.011;
  plan.optimality_gap = 0.02;
  plan.moved_bytes = 1 << 20;
  plan.data_parallel_bytes = 4 << 20;
  plan.alternatives = {
      {"data parallel", "4", 0.023, 0.02,
       "2 times slower: bound by the all-reduce of stage 0's "
       "528 MiB of parameters, which has to cross the same slow link four times over"},
      {"one worker", "1", 0, 0, "does not fit in memory"}};
  plan.warnings = {"bound by the network"};
  return plan;
}

TEST(PlanTableTest, ShowsStagesMemoryPredictionAlternativesAndWarnings) {
  const std::string text = FormatPlanTable(Sample());
  EXPECT_THAT(text,
              HasSubstr("Plan 3-1: 2 stages on 4 workers, schedule pipedream, cost rule paper\n"));
  EXPECT_THAT(
      text,
      HasSubstr("stage  nodes   replicas  compute  sync    in   out  versions  depth  stale\n"
                "0      0-6, 8         3  34.5 ms  2 ms     -  1 ms         2      1      1\n"
                "1      7              1    10 ms     -  1 ms     -         1      0      0\n"));
  EXPECT_THAT(text, HasSubstr("stage    memory   weights  gradients"));
  EXPECT_THAT(text, HasSubstr("\n0      11.5 KiB  2.00 KiB   1.00 KiB"));
  EXPECT_THAT(text, HasSubstr("stage 0: conv1 .. pool2 on w0, w1, w2; 1.00 KiB of parameters, "
                              "2.00 KiB sent per microbatch\n"
                              "stage 1: fc on w3; 0 B of parameters\n"));
  EXPECT_THAT(
      text, HasSubstr("Predicted: 11.5 ms per minibatch (87 per second), busiest worker idle 25 %; "
                      "11 ms if everything\n           overlapped\n"));
  EXPECT_THAT(text, HasSubstr("Moves: 1.00 MiB per minibatch between workers, 75 % less than data "
                              "parallelism (4.00 MiB)\n"));
  EXPECT_THAT(text, HasSubstr("Search: bounded; no other plan is more than 2 % faster"));
  EXPECT_THAT(text, HasSubstr("Learning rate: times 1, 0.333 by stage"));
  EXPECT_THAT(text, HasSubstr("  one worker     1         -  does not fit in memory\n"));
  EXPECT_THAT(text, HasSubstr("Warning: bound by the network\n"));
}

TEST(PlanTableTest, SaysWhichDeviceHasWhichStages) {
  Plan plan = Sample();
  plan.stages.push_back(plan.stages[1]);
  plan.stages[2].nodes = {9, 10};
  plan.stages[0].workers = {"w0"};
  plan.stages[2].workers = {"w0"};
  plan.device_of = {0, 1, 0};
  EXPECT_EQ(plan.config(), "1-1-1 on 2 devices");
  EXPECT_EQ(plan.devices(), 2);
  EXPECT_EQ(plan.workers(), 2);
  const std::string text = FormatPlanTable(plan);
  EXPECT_THAT(text, HasSubstr("Plan 1-1-1 on 2 devices: 3 stages on 2 workers, schedule"));
  EXPECT_THAT(text, HasSubstr("stage  device  nodes   replicas"));
  EXPECT_THAT(text, HasSubstr("\n0      0       0-6, 8         1"));
  EXPECT_THAT(text, HasSubstr("\n2      0       9-10           1"));
  plan.device_of = {0, 0, 0};
  EXPECT_EQ(plan.config(), "1-1-1 on 1 device");
}

TEST(PlanTest, WarmUpIsLeftToTheScheduleWhereThePlanSaysSo) {
  Plan plan = Sample();
  EXPECT_EQ(plan.warmup(), (std::vector<int>{1, 0}));
  plan.own_warmup = true;
  EXPECT_TRUE(plan.warmup().empty());
}

TEST(PlanTableTest, StaysWithinAHundredColumns) {
  Plan plan = Sample();
  plan.stages[0].workers.clear();
  for (int w = 0; w < 64; ++w) plan.stages[0].workers.push_back(fmt::format("worker-{}", w));
  plan.stages[0].nodes.clear();
  for (int n = 0; n < 2000; n += 2) plan.stages[0].nodes.push_back(n);
  plan.stages[0].memory = {1 << 30, 1023 << 20, 1023 << 20, 1023 << 20, 1023 << 20, 1023 << 20};
  plan.stages[0].compute_s = plan.stages[0].sync_s = plan.stages[0].send_s = 999.9e-6;
  plan.warnings.push_back(fmt::format("{:x>30} {:y>60} {:z>60}", "", "", ""));
  std::istringstream lines(FormatPlanTable(plan));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace pipedream
