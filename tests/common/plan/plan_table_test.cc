#include "common/plan/plan_table.h"

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
  plan.stages[0].last_node = 11;
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
  plan.stages[1].first_node = 12;
  plan.stages[1].last_node = 12;
  plan.stages[1].first_node_name = plan.stages[1].last_node_name = "fc";
  plan.stages[1].workers = {"w3"};
  plan.stages[1].compute_s = 0.01;
  plan.step_s = 0.0115;
  plan.bubble = 0.25;
  plan.alternatives = {
      {"data parallel", "4", 0.023,
       "2 times slower: bound by the all-reduce of stage 0's "
       "528 MiB of parameters, which has to cross the same slow link four times over"},
      {"one worker", "1", 0, "does not fit in memory"}};
  plan.warnings = {"bound by the network"};
  return plan;
}

TEST(PlanTableTest, ShowsStagesMemoryPredictionAlternativesAndWarnings) {
  const std::string text = FormatPlanTable(Sample());
  EXPECT_THAT(text,
              HasSubstr("Plan 3-1: 2 stages on 4 workers, schedule pipedream, cost rule paper\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "stage  nodes  replicas  compute  sync  send      sent    memory  versions  warmup\n"
          "0      0-11          3  34.5 ms  2 ms  1 ms  2.00 KiB  11.5 KiB         2       1\n"
          "1      12-12         1    10 ms     -     -         -       0 B         1       0\n"));
  EXPECT_THAT(text, HasSubstr("stage 0: conv1 .. pool2 on w0, w1, w2\nstage 1: fc on w3\n"));
  EXPECT_THAT(
      text,
      HasSubstr("Predicted: 11.5 ms per minibatch (87 per second), busiest worker idle 25 %\n"));
  EXPECT_THAT(text, HasSubstr("  one worker     1         -  does not fit in memory\n"));
  EXPECT_THAT(text, HasSubstr("Warning: bound by the network\n"));
}

TEST(PlanTableTest, SaysWhichDeviceHasWhichStages) {
  Plan plan = Sample();
  plan.stages.push_back(plan.stages[1]);
  plan.stages[2].first_node = plan.stages[2].last_node = 13;
  plan.stages[0].workers = {"w0"};
  plan.stages[2].workers = {"w0"};
  plan.device_of = {0, 1, 0};
  EXPECT_EQ(plan.config(), "1-1-1 on 2 devices");
  EXPECT_EQ(plan.devices(), 2);
  EXPECT_EQ(plan.workers(), 2);
  const std::string text = FormatPlanTable(plan);
  EXPECT_THAT(text, HasSubstr("Plan 1-1-1 on 2 devices: 3 stages on 2 workers, schedule"));
  EXPECT_THAT(text, HasSubstr("stage  device  nodes  replicas"));
  EXPECT_THAT(text, HasSubstr("\n0      0       0-11          1"));
  EXPECT_THAT(text, HasSubstr("\n2      0       13-13         1"));
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
  for (int w = 0; w < 64; ++w) plan.stages[0].workers.push_back("worker-" + std::to_string(w));
  plan.warnings.push_back(std::string(30, 'x') + " " + std::string(60, 'y') + " " +
                          std::string(60, 'z'));
  std::istringstream lines(FormatPlanTable(plan));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace pipedream
