// The planner against the exact optima of published profiles.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/plan/published_profile.h"
#include "common/planner/planner.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::StatusOr<Profile> Published(const std::string& model) {
  const std::string name = model + ".graph.txt";
  return ParsePublishedProfile(ReadText(SharedDataDir() + "/profiles/" + name), name);
}

PlanRequest Flat(Profile profile, int workers, double bandwidth) {
  PlanRequest request;
  for (int w = 0; w < workers; ++w) {
    request.topology.devices.push_back(
        {"w" + std::to_string(w), profile.device_kind, 0, "h" + std::to_string(w)});
  }
  request.topology.links.push_back({0, 1, bandwidth, 0, "tcp"});
  request.profiles.push_back(std::move(profile));
  return request;
}

TEST(PublishedPlansTest, Vgg16OnSixteenWorkersIs15And1) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  ASSERT_OK_AND_ASSIGN(Profile profile, Published("vgg16"));
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(Flat(profile, 16, 1.25e9)));
  EXPECT_EQ(plan.config(), "15-1");
}

TEST(PublishedPlansTest, ResNet50OnSixteenWorkersIsDataParallel) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  ASSERT_OK_AND_ASSIGN(Profile profile, Published("resnet50"));
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(Flat(profile, 16, 1.25e9)));
  EXPECT_EQ(plan.config(), "16");
}

TEST(PublishedPlansTest, MatchesTheExactOptimumOfEveryFlatCase) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  const auto expected =
      nlohmann::json::parse(ReadText(SharedDataDir() + "/profiles/expected_flat.json"));
  int cases = 0;
  for (const auto& c : expected["cases"]) {
    if (c["rule"] != "arxiv_rule") continue;
    const std::string model = c["model"], cluster = c["cluster"];
    SCOPED_TRACE(model + " on " + cluster);
    const auto& flat = expected["clusters"][cluster];
    ASSERT_OK_AND_ASSIGN(Profile profile, Published(model));
    PlanRequest request =
        Flat(std::move(profile), flat["workers"], flat["levels"][0]["bandwidth_bytes_per_s"]);
    request.use_all_workers = true;
    request.negligible_share = -1;  // any node may be a stage, as in the exhaustive search
    ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
    const double time_s = c["time_s"];
    EXPECT_NEAR(plan.step_s, time_s, time_s * 1e-9);
    ++cases;
  }
  EXPECT_EQ(cases, 44);
}

}  // namespace
}  // namespace pipedream
