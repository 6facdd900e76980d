#include "client/documents.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "client/render/json.h"
#include "client/render/plan_json.h"
#include "client/render/yaml.h"
#include "common/base/file.h"
#include "common/codec/plan_codec.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

Profile SampleProfile() {
  Profile profile;
  profile.device_kind = "cpu: \"x\"";
  profile.microbatch_size = 16;
  for (const char* name : {"conv", "relu", "fc"}) {
    NodeProfile node;
    node.name = name;
    node.op = "Op";
    node.forward_s = 1e-3 / 3;
    node.parameter_bytes = 1 << 20;
    profile.nodes.push_back(node);
  }
  profile.tensors = {{{0}, {1}, 10, false, {}, 0}, {{0}, {1}, 10, true, {}, 0}};
  profile.ties = {{0, 2}};
  return profile;
}

ClusterTopology SampleTopology() {
  ClusterTopology topology;
  topology.devices = {{"w-1", "cpu", 1 << 30, "a", 1}, {"w-2", "cpu", 1 << 30, "b", 2}};
  topology.ports = {{"nic", 1e9}};
  topology.links = {{0, 1, 1e9, 1e-5, "tcp", 0, -1}, {1, 0, 1e9, 1e-5, "tcp", -1, 0}};
  return topology;
}

Plan SamplePlan() {
  Plan plan;
  plan.schedule = "pipedream";
  plan.rule = "measured";
  plan.stages.resize(2);
  plan.stages[0].nodes = {0, 2};
  plan.stages[0].first_node_name = "conv";
  plan.stages[0].last_node_name = "fc";
  plan.stages[0].workers = {"w-1", "w-2"};
  plan.stages[0].versions = 2;
  plan.stages[0].memory.weights = 100;
  plan.stages[0].memory.buffers = 23;
  plan.stages[1].nodes = {1};
  plan.stages[1].first_node_name = plan.stages[1].last_node_name = "relu";
  plan.stages[1].workers = {"w-3"};
  plan.step_s = 0.25;
  plan.bottleneck_s = 0.2;
  plan.alternatives = {{"one worker", "1", 1, 1, "slower"}};
  return plan;
}

std::string SavedPlan() {
  const Profile profile = SampleProfile();
  const PlanOrigin origin{{profile}, SampleTopology(), {"odd model"}};
  return PlanJson(SamplePlan(), &profile, &origin);
}

// Replaces the first `from`, which must be there.
std::string With(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(DocumentsTest, APlanSaysWhatFollowsFromItsFields) {
  const std::string json = SavedPlan();
  for (const char* part :
       {"\"kind\": \"Plan\"", "\"config\": \"2-1\"", "\"bottleneck_s\": 0.2", "\"replicas\": 2",
        "\"memory_bytes\": 123", "\"node_ranges\": \"0, 2\"", "\"learning_rate_scale\": 0.5",
        "\"planning_s\": 0.0", "\"optimality_gap\": 0.0"}) {
    EXPECT_THAT(json, HasSubstr(part));
  }
}

TEST(DocumentsTest, WhatWasSavedIsReadBack) {
  const std::string json = SavedPlan();
  for (const std::string& text : {json, JsonToYaml(json)}) {
    ASSERT_OK_AND_ASSIGN(Plan plan, ParsePlan(text, "p"));
    EXPECT_EQ(plan, SamplePlan());
    ASSERT_OK_AND_ASSIGN(std::vector<Profile> profiles, ParseProfiles(text, "p"));
    EXPECT_EQ(profiles, std::vector<Profile>{SampleProfile()});
    ASSERT_OK_AND_ASSIGN(ClusterTopology topology, ParseTopologyDocument(text, "p"));
    EXPECT_EQ(topology, SampleTopology());
  }
  ASSERT_OK_AND_ASSIGN(std::vector<Profile> profiles,
                       ParseProfiles(MessageYaml("Profile", ToProto(SampleProfile())), "p"));
  EXPECT_EQ(profiles, std::vector<Profile>{SampleProfile()});
  ASSERT_OK_AND_ASSIGN(
      ClusterTopology topology,
      ParseTopologyDocument(MessageJson("Topology", ToProto(SampleTopology())), "t"));
  EXPECT_EQ(topology, SampleTopology());
}

TEST(DocumentsTest, PublishedProfilesAndClusterFilesAreRecognised) {
  const std::string graph =
      "node1 -- Conv -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=3.0, "
      "parameter_size=4.0\n";
  ASSERT_OK_AND_ASSIGN(std::vector<Profile> profiles, ParseProfiles(graph, "vgg"));
  EXPECT_EQ(profiles[0].device_kind, "published");
  ASSERT_OK_AND_ASSIGN(
      ClusterTopology topology,
      ParseTopologyDocument("levels: [{count: 2, bandwidth_bytes_per_s: 1}]", "c"));
  EXPECT_EQ(topology.devices.size(), 2u);
}

TEST(DocumentsTest, AnEditedPlanNeedsOnlyWhatDecides) {
  ASSERT_OK_AND_ASSIGN(Plan plan, ParsePlan("apiVersion: pipedream/v1\n"
                                            "kind: Plan\n"
                                            "schedule: 1f1b\n"
                                            "stages:\n"
                                            "- {nodes: [0, 1], workers: [w-1]}\n"
                                            "- {nodes: [2], workers: [\"2\"], warmup: 0}\n",
                                            "edited"));
  EXPECT_EQ(plan.config(), "1-1");
  EXPECT_EQ(plan.stages[1].workers[0], "2");
}

TEST(DocumentsTest, SaysWhatIsWrongWithAFile) {
  const std::string good = SavedPlan();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "f: not valid JSON"},
      {"a: [", "f:1: not valid YAML"},
      {"just text", "f: expected a map"},
      {std::string(200, '['), "not valid"},
      {fmt::format("{{\"a\": {:[>100}{:]>100}}}", "", ""), "nested too deep"},
      {With(good, "pipedream/v1", "pipedream/v9"), "apiVersion: found 'pipedream/v9'"},
      {With(good, "\"kind\": \"Plan\"", "\"kind\": \"Job\""), "kind: found 'Job', expected Plan"},
      {With(good, "\"step_s\"", "\"stp_s\""), "stp_s"},
      {With(good, "\"warmup\"", "\"warm_up\""), "warm_up"},
      {With(good, "\"replicas\": 2", "\"replicas\": 3"),
       "f: stages[0].replicas: found 3, but workers names 2"},
      {With(good, "\"w-1\"", "\"w-9\""), "f: stages[0].devices: found [\"w-9\",\"w-2\"]"},
      {With(good, "\"step_s\": 0.25", "\"step_s\": -1"), "f: Plan.step_s: found -1"},
      {"{\"apiVersion\": \"pipedream/v1\", \"kind\": \"Plan\"}", "stages: expected at least one"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParsePlan(text, "f").status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(message)))
        << text.substr(0, 200);
  }
  EXPECT_THAT(
      ParseProfiles(With(MessageJson("Profile", ToProto(SampleProfile())), "forward_s", "f"), "f")
          .status(),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("f: Profile: ")));
  EXPECT_THAT(ParseTopologyDocument(With(good, "\"topology\"", "\"model_warnings\""), "f").status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("without its topology")));
  EXPECT_THAT(ReadPlan("/nowhere/plan.json").status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("/nowhere/plan.json")));
}

TEST(DocumentsTest, SavesAsYamlWhereTheNameSaysSo) {
  const std::string folder = testing::TempDir();
  ASSERT_OK(SaveDocument(folder + "/p.yaml", SavedPlan()));
  ASSERT_OK(SaveDocument(folder + "/p.json", SavedPlan()));
  EXPECT_EQ(ReadFile(folder + "/p.json", 1 << 20).value(), SavedPlan());
  EXPECT_TRUE(
      ReadFile(folder + "/p.yaml", 1 << 20).value().starts_with("apiVersion: pipedream/v1"));
  EXPECT_EQ(ReadPlan(folder + "/p.yaml").value(), SamplePlan());
}

}  // namespace
}  // namespace pipedream
