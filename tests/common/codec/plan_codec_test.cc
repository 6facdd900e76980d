#include "common/codec/plan_codec.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

Profile FullProfile() {
  Profile profile{"hash", "cpu: x", 16, 2, 0.125, {}, {}, {}};
  profile.nodes.push_back({"conv", "Conv", 1e-3, 2e-3, 3e-3, 4e-3, 100, 200, 300, 400, 500});
  profile.nodes.push_back({"fc", "Gemm", 0, 0, 0, 0, 0, 0, 0, 0, 0});
  profile.nodes.push_back({"out", "Gemm", 0, 0, 0, 0, 0, 0, 0, 0, 0});
  profile.tensors = {{{}, {1}, 10, false, {}, 0},
                     {{0}, {1, 2}, 20, false, {0, 1}, 25},
                     {{0, 1}, {2}, 30, true, {}, 0}};
  profile.ties = {{0, 2}, {1, 2}};
  return profile;
}

ClusterTopology FullTopology() {
  ClusterTopology topology;
  topology.devices = {{"w-1", "cpu", int64_t{4} << 30, "host-a", 1},
                      {"w-2", "gpu", 1, "host-b", 2.5}};
  topology.links = {{0, 1, 1.25e9, 5e-5, "tcp", 0, 1}, {1, 0, 2.5e9, 1e-6, "shm"}};
  topology.ports = {{"a", 1e9}, {"b", 2e9}};
  return topology;
}

Plan FullPlan() {
  Plan plan;
  plan.schedule = "pipedream";
  plan.rule = "paper";
  plan.stages.push_back({{0, 1, 2, 4},
                         "conv1",
                         "pool2",
                         {"w-1", "w-2"},
                         2,
                         3,
                         0.1,
                         true,
                         0.2,
                         0.3,
                         1000,
                         2000,
                         {1, 2, 3, 4, 5, 6}});
  plan.stages.push_back(
      {{3, 5}, "fc1", "fc3", {"w-3"}, 1, 1, 0.4, false, 0, 0, 3000, 0, {7, 8, 9, 10, 11, 12}});
  plan.device_of = {1, 0};
  plan.own_warmup = true;
  plan.step_s = 0.5;
  plan.bubble = 0.25;
  plan.bottleneck_s = 0.4;
  plan.optimality_gap = 0.02;
  plan.moved_bytes = 12345;
  plan.data_parallel_bytes = 67890;
  plan.alternatives = {{"data parallel", "3", 0.75, 0.7, "gradients take 0.5 s"}};
  plan.warnings = {"one", "two"};
  plan.planning_s = 0.01;
  return plan;
}

TEST(PlanCodec, RoundTripsAProfile) {
  ASSERT_OK_AND_ASSIGN(Profile back, FromProto(ToProto(FullProfile())));
  EXPECT_EQ(back, FullProfile());
}

TEST(PlanCodec, RoundTripsATopology) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology back, FromProto(ToProto(FullTopology())));
  EXPECT_EQ(back, FullTopology());
}

TEST(PlanCodec, RoundTripsAPlan) {
  v1::Plan arrived;
  ASSERT_TRUE(arrived.ParseFromString(ToProto(FullPlan()).SerializeAsString()));
  ASSERT_OK_AND_ASSIGN(Plan back, FromProto(arrived));
  EXPECT_EQ(back, FullPlan());
}

TEST(PlanCodec, RoundTripsEmptyValues) {
  ASSERT_OK_AND_ASSIGN(Plan plan, FromProto(v1::Plan()));
  EXPECT_EQ(plan, Plan());
  ASSERT_OK_AND_ASSIGN(Profile profile, FromProto(v1::Profile()));
  EXPECT_EQ(profile, Profile());
}

TEST(PlanCodec, RefusesBadPlans) {
  struct Case {
    std::function<void(v1::Plan*)> spoil;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {[](v1::Plan* m) { m->mutable_stages(1)->set_nodes(0, 4); },
            "Plan.stages[1].nodes: found 4, expected each of the nodes 0 to 5 in one stage"},
           {[](v1::Plan* m) { m->mutable_stages(1)->set_nodes(1, INT32_MAX); },
            "Plan.stages[1].nodes: found 2147483647"},
           {[](v1::Plan* m) { m->mutable_stages(0)->set_nodes(0, -1); },
            "Plan.stages[0].nodes: found -1"},
           {[](v1::Plan* m) { m->mutable_stages(0)->set_nodes(1, 0); }, "PlanStage.nodes"},
           {[](v1::Plan* m) { m->mutable_stages(1)->clear_nodes(); }, "PlanStage.nodes"},
           {[](v1::Plan* m) { m->mutable_stages(0)->clear_workers(); }, "PlanStage.workers"},
           {[](v1::Plan* m) { m->mutable_stages(0)->set_warmup(-1); }, "PlanStage.warmup"},
           {[](v1::Plan* m) { m->mutable_stages(0)->mutable_memory()->set_buffers(-5); },
            "MemoryPrediction.buffers: found -5"},
           {[](v1::Plan* m) { m->set_step_s(std::numeric_limits<double>::quiet_NaN()); },
            "Plan.step_s: found nan"},
       }) {
    v1::Plan message = ToProto(FullPlan());
    c.spoil(&message);
    EXPECT_THAT(FromProto(message),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(PlanCodec, RefusesALinkToADeviceThatIsNotThere) {
  v1::ClusterTopology message = ToProto(FullTopology());
  message.mutable_links(1)->set_to(2);
  EXPECT_THAT(FromProto(message), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("ClusterTopology.links[1].to: found 2")));
}

TEST(PlanCodec, RefusesALinkThroughAPortThatIsNotThere) {
  v1::ClusterTopology message = ToProto(FullTopology());
  message.mutable_links(0)->set_in_port(2);
  EXPECT_THAT(FromProto(message), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("ClusterTopology.links[0].in_port: found 2")));
}

TEST(PlanCodec, ASpeedThatIsNotGivenIsOne) {
  v1::ClusterTopology message = ToProto(FullTopology());
  message.mutable_devices(1)->clear_speed();
  ASSERT_OK_AND_ASSIGN(ClusterTopology topology, FromProto(message));
  EXPECT_EQ(topology.devices[1].speed, 1);
}

TEST(PlanCodec, RefusesTensorsAndTiesOfOtherNodes) {
  const std::vector<std::pair<std::function<void(v1::Profile*)>, const char*>> cases = {
      {[](v1::Profile* m) { m->mutable_tensors(1)->set_late(1, 3); }, "Profile.tensors[1].late"},
      {[](v1::Profile* m) { m->mutable_tensors(2)->set_early(1, 0); }, "Profile.tensors[2].early"},
      {[](v1::Profile* m) { m->mutable_tensors(1)->set_early(0, 2); }, "Profile.tensors[1].late"},
      {[](v1::Profile* m) { m->mutable_tensors(0)->clear_late(); }, "ProfileTensor.late"},
      {[](v1::Profile* m) { m->mutable_ties(1)->set_nodes(0, -1); }, "Profile.ties[1].nodes"}};
  for (const auto& [spoil, message] : cases) {
    v1::Profile profile = ToProto(FullProfile());
    spoil(&profile);
    EXPECT_THAT(FromProto(profile),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

TEST(PlanCodec, RefusesANegativeTimeAndSaysInWhichNode) {
  v1::Profile message = ToProto(FullProfile());
  message.mutable_nodes(1)->set_forward_s(-1);
  EXPECT_THAT(FromProto(message),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("Profile.nodes[1]: NodeProfile.forward_s: found -1")));
}

}  // namespace
}  // namespace pipedream
