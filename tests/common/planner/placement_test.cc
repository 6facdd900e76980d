#include "common/planner/placement.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pipedream {
namespace {

ClusterTopology Cluster(const std::vector<std::string>& hosts) {
  ClusterTopology topology;
  for (size_t d = 0; d < hosts.size(); ++d)
    topology.devices.push_back({"w" + std::to_string(d), "cpu", 0, hosts[d]});
  return topology;
}

TEST(PlacementTest, DevicesOfOneHostStandSideBySide) {
  EXPECT_EQ(OrderWorkers(Cluster({"b", "a", "b", "a", "b"})), (std::vector<int>{0, 2, 4, 1, 3}));
  EXPECT_EQ(OrderWorkers(Cluster({"b", "a"})), (std::vector<int>{1, 0}));  // equal: by host id
}

TEST(PlacementTest, NextComesTheHostWithTheFastestLink) {
  ClusterTopology topology = Cluster({"a", "a", "b", "c"});
  topology.links = {{1, 2, 10, 0, "tcp"}, {2, 1, 10, 0, "tcp"},  {1, 3, 99, 0, "tcp"},
                    {3, 1, 99, 0, "tcp"}, {0, 1, 500, 0, "shm"}, {1, 0, 400, 0, "shm"}};
  EXPECT_EQ(OrderWorkers(topology), (std::vector<int>{0, 1, 3, 2}));
}

TEST(PlacementTest, SlowestLinkInEitherDirectionCounts) {
  ClusterTopology topology = Cluster({"a", "a", "b"});
  topology.links = {
      {0, 1, 500, 0, "shm"}, {1, 0, 400, 0, "shm"}, {0, 2, 80, 0, "tcp"}, {2, 0, 90, 0, "tcp"}};
  const std::vector<double> slowest = SlowestBandwidths(topology, {0, 1, 2});
  ASSERT_EQ(slowest.size(), 3u);
  EXPECT_TRUE(std::isinf(slowest[0]));
  EXPECT_EQ(slowest[1], 400);
  EXPECT_EQ(slowest[2], 80);  // 1 and 2 are not listed: the slowest listed
}

}  // namespace
}  // namespace pipedream
