#include "coordinator/cluster/link_probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipedream {
namespace {

using testing::ElementsAre;

std::vector<WorkerInfo> Workers(const std::vector<std::string>& hosts) {
  std::vector<WorkerInfo> workers;
  for (const std::string& host : hosts)
    workers.push_back({.id = "w" + std::to_string(workers.size()),
                       .device_kind = "cpu",
                       .memory_bytes = 100,
                       .data_address = {.host_id = host}});
  return workers;
}

std::vector<std::string> Names(const std::vector<LinkProbe>& probes) {
  std::vector<std::string> names;
  for (const LinkProbe& p : probes) names.push_back(p.from.id + ">" + p.to.id);
  return names;
}

TEST(LinkProbes, OneHostIsMeasuredOnce) {
  EXPECT_THAT(Names(ChooseProbes(Workers({"h", "h", "h", "h"}))), ElementsAre("w0>w1"));
  EXPECT_TRUE(ChooseProbes(Workers({"h"})).empty());
}

TEST(LinkProbes, EveryOrderedPairOfHostsAndEachHostWithItself) {
  EXPECT_THAT(Names(ChooseProbes(Workers({"a", "b", "a"}))),
              ElementsAre("w0>w2", "w0>w1", "w1>w0"));
}

TEST(LinkProbes, ManyHostsAreMeasuredAsARing) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 8; ++i) hosts.push_back("h" + std::to_string(i));
  EXPECT_EQ(ChooseProbes(Workers(hosts)).size(), 8u * 7);
  hosts.push_back("h8");
  EXPECT_EQ(ChooseProbes(Workers(hosts)).size(), 9u * 2);
}

TEST(LinkProbes, TopologyUsesAMeasurementForAllPairsOfItsHosts) {
  ClusterTopology topology = MakeTopology(
      Workers({"a", "a", "b"}), {{"a", "a", 1e9, 1e-6, "shm"}, {"a", "b", 1e8, 1e-4, "tcp"}});
  ASSERT_EQ(topology.devices.size(), 3u);
  EXPECT_EQ(topology.devices[2], (DeviceInfo{"w2", "cpu", 100, "b"}));
  EXPECT_THAT(
      topology.links,
      ElementsAre(LinkInfo{0, 1, 1e9, 1e-6, "shm"}, LinkInfo{0, 2, 1e8, 1e-4, "tcp", 0, 1},
                  LinkInfo{1, 0, 1e9, 1e-6, "shm"}, LinkInfo{1, 2, 1e8, 1e-4, "tcp", 0, 1}));
}

TEST(LinkProbes, LinksBetweenHostsShareTheHostsPorts) {
  ClusterTopology topology = MakeTopology(
      Workers({"a", "b", "c"}),
      {{"a", "b", 3e8, 0, "tcp"}, {"b", "a", 1e8, 0, "tcp"}, {"c", "a", 2e8, 0, "tcp"}});
  // The widest that was measured from or to each.
  EXPECT_THAT(topology.ports,
              ElementsAre(PortInfo{"a", 3e8}, PortInfo{"b", 3e8}, PortInfo{"c", 2e8}));
  EXPECT_THAT(topology.links,
              ElementsAre(LinkInfo{0, 1, 3e8, 0, "tcp", 0, 1}, LinkInfo{1, 0, 1e8, 0, "tcp", 1, 0},
                          LinkInfo{2, 0, 2e8, 0, "tcp", 2, 0}));
}

std::vector<double> Speeds(const std::vector<WorkerInfo>& workers,
                           const std::map<std::string, double>& profiled) {
  std::vector<double> speeds;
  for (const DeviceInfo& device : MakeTopology(workers, {}, profiled).devices)
    speeds.push_back(device.speed);
  return speeds;
}

TEST(LinkProbes, SpeedsAreRelativeToTheWorkerThatWasProfiled) {
  std::vector<WorkerInfo> workers = Workers({"a", "b", "c", "d"});
  workers[0].speed = 1e10;
  workers[1].speed = 2e10;
  workers[2].speed = 1.1e10;                                  // nearly as the first
  EXPECT_THAT(Speeds(workers, {}), ElementsAre(1, 2, 1, 1));  // nobody knows the last
  EXPECT_THAT(Speeds(workers, {{"cpu", 2e10}}), ElementsAre(0.5, 1, 0.55, 1));
  workers[1].device_kind = "gpu";
  EXPECT_THAT(Speeds(workers, {{"cpu", 0}}), ElementsAre(1, 1, 1, 1));
}

}  // namespace
}  // namespace pipedream
