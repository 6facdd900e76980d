#include "common/plan/profile_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace pipedream {
namespace {

using testing::HasSubstr;

Profile MeasuredModel() {
  Profile profile;
  profile.device_kind = "cpu: x";
  profile.microbatch_size = 16;
  profile.step_s = 0.011;
  profile.optimizer_state_tensors = 1;
  for (int n = 0; n < 4; ++n) {
    NodeProfile node;
    node.name = n == 3 ? fmt::format("{:y>60}/last", "") : fmt::format("node{}", n);
    node.op = "Conv";
    node.forward_s = 1e-3 * n;
    node.weight_gradient_s = 1e-3;
    node.parameter_bytes = 1024 * n;
    profile.nodes.push_back(node);
  }
  return profile;
}

TEST(ProfileTableTest, ShowsNodesSumAndTheLongest) {
  const std::string text = FormatProfileTable(MeasuredModel());
  EXPECT_THAT(text, HasSubstr("Profile: 4 nodes on cpu: x\n"));
  EXPECT_THAT(text, HasSubstr("Microbatch of 16 samples: 11 ms measured as a whole\n"));
  EXPECT_THAT(text,
              HasSubstr("Sum: 10 ms per microbatch; 6.00 KiB of parameters, 1 optimizer tensor"));
  EXPECT_THAT(text, HasSubstr("40.0 %\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(ProfileTableTest, ShowsTheLongestNodesOfEachStage) {
  Plan plan;
  plan.stages.resize(2);
  plan.stages[0].nodes = {0, 3};
  plan.stages[1].nodes = {1, 2};
  const std::string text = FormatStageNodes(plan, MeasuredModel());
  EXPECT_THAT(text, HasSubstr("Shares of the compute time: stage 0 50.0 %, stage 1 50.0 %\n"));
  EXPECT_THAT(text, HasSubstr("/last"));
  EXPECT_THAT(text, HasSubstr("80.0 %"));
  EXPECT_THAT(text, HasSubstr("60.0 %"));
}

}  // namespace
}  // namespace pipedream
