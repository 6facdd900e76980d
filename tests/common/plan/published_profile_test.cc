#include "common/plan/published_profile.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

std::string Line(const std::string& id, const std::string& op, const std::string& costs) {
  return id + " -- " + op + " -- " + costs + "\n";
}
std::string Costs(double forward, double backward, const std::string& activation,
                  double parameters) {
  return "forward_compute_time=" + std::to_string(forward) +
         ", backward_compute_time=" + std::to_string(backward) + ", activation_size=" + activation +
         ", parameter_size=" + std::to_string(parameters);
}

// input -> 2 -> 3 -> 4, 2 -> 4, and input -> 4.
std::string Skip() {
  return Line("node4", "Add", Costs(0, 0, "7", 0)) +
         Line("node1", "Input0", Costs(9, 0, "1000", 0)) +
         Line("node2", "Conv2d(3, 8)", Costs(1, 2, "[10.5; 9.5]", 40)) +
         Line("node3", "ReLU(inplace)", Costs(3, 4, "5", 0)) +
         "\tnode1 -- node2\n\tnode2 -- node3\n" +
         "\tnode3 -- node4\n\tnode2 -- node4\n\tnode1 -- node4\n";
}

TEST(PublishedProfileTest, CountsEveryCrossingOutputOnce) {
  ASSERT_OK_AND_ASSIGN(Profile profile, ParsePublishedProfile(Skip(), "skip"));
  ASSERT_EQ(profile.nodes.size(), 3u);
  EXPECT_EQ(profile.nodes[0].op, "Conv2d(3, 8)");
  EXPECT_DOUBLE_EQ(profile.nodes[0].compute_s(), 3e-3);
  EXPECT_EQ(profile.nodes[0].parameter_bytes, 40);
  EXPECT_EQ(profile.nodes[0].output_bytes, 20);
  std::vector<ProfileTensor> tensors;
  const auto add = [&](std::vector<int> early, std::vector<int> late, int64_t bytes) {
    for (const bool gradient : {false, true})
      tensors.push_back({early, late, bytes, gradient, {}, 0});
  };
  add({}, {0, 2}, 1000);  // the input
  add({0}, {1, 2}, 20);   // node2
  add({1}, {2}, 5);       // node3
  EXPECT_EQ(profile.tensors, tensors);
  EXPECT_DOUBLE_EQ(profile.step_s, 10e-3);
}

TEST(PublishedProfileTest, NamesTheLineThatIsWrong) {
  const std::string good = Line("node1", "Conv", Costs(1, 1, "1", 1));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {good + "nonsense\n", "f:2:"},
      {good + good, "f:2:"},
      {good + "\tnode1 -- node9\n", "f:2:"},
      {Line("node1", "Conv", Costs(-1, 1, "1", 1)), "f:1:"},
      {Line("node1", "Conv", Costs(1, 1, "nan", 1)), "f:1:"},
      {Line("node1", "Conv", Costs(1, 1, "1e300", 1)), "f:1:"},
      {good + "\tnode1 -- node1\n", "cycle"},
      {"", "has no nodes"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParsePublishedProfile(text, "f").status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

}  // namespace
}  // namespace pipedream
