#include "common/plan/what_if.h"

#include <gtest/gtest.h>

#include <set>

#include "common/plan/topology_file.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

ClusterTopology Servers(int per_server, int servers) {
  const std::string text = fmt::format(
      "levels: [{{count: {}, bandwidth_bytes_per_s: 1e10, latency_s: 5e-6}}, "
      "{{count: {}, bandwidth_bytes_per_s: 1.25e9, latency_s: 3e-5, shared: true}}]\n"
      "device: {{memory_bytes: 16e9}}",
      per_server, servers);
  return ParseTopology(text, "servers").value();
}

TEST(WhatIfTest, MoreWorkersAreMoreHosts) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology more, ApplyWhatIf("workers=8", Servers(2, 2)));
  const ClusterTopology expected = Servers(2, 4);
  ASSERT_EQ(more.devices.size(), 8u);
  EXPECT_EQ(more.devices[7].worker_id, "worker-7");
  EXPECT_EQ(more.devices[6].host_id, more.devices[7].host_id);
  EXPECT_NE(more.devices[5].host_id, more.devices[6].host_id);
  std::set<std::string> names;
  for (const PortInfo& port : more.ports) names.insert(port.name);
  EXPECT_EQ(names.size(), more.ports.size());
  ASSERT_EQ(more.links.size(), expected.links.size());
  for (const LinkInfo& link : more.links) {
    const bool together = link.from / 2 == link.to / 2;
    EXPECT_EQ(link.bandwidth_bytes_per_s, together ? 1e10 : 1.25e9);
    EXPECT_EQ(link.latency_s, together ? 5e-6 : 3e-5);
    // The two of a server share its interface, and nobody else does.
    for (const LinkInfo& other : more.links) {
      if (together || other.from / 2 == other.to / 2) continue;
      EXPECT_EQ(link.out_port == other.out_port, link.from / 2 == other.from / 2);
      EXPECT_EQ(link.in_port == other.in_port, link.to / 2 == other.to / 2);
      EXPECT_EQ(link.out_port == other.in_port, link.from / 2 == other.to / 2);
    }
  }
}

TEST(WhatIfTest, FewerWorkersAreTheFirst) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology fewer, ApplyWhatIf("workers=3", Servers(2, 4)));
  EXPECT_EQ(fewer.devices.size(), 3u);
  EXPECT_EQ(fewer.links.size(), 6u);
  EXPECT_EQ(fewer.devices[2], Servers(2, 4).devices[2]);
}

TEST(WhatIfTest, LinkAndLatencyAreThoseBetweenHosts) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology fast, ApplyWhatIf("link=25G,latency=50us", Servers(2, 2)));
  for (const LinkInfo& link : fast.links) {
    const bool together = link.from / 2 == link.to / 2;
    EXPECT_EQ(link.bandwidth_bytes_per_s, together ? 1e10 : 3.125e9);
    EXPECT_DOUBLE_EQ(link.latency_s, together ? 5e-6 : 50e-6);
    EXPECT_EQ(fast.ports[link.out_port].bandwidth_bytes_per_s, link.bandwidth_bytes_per_s);
  }
}

TEST(WhatIfTest, MemoryAndSpeedAreOfEveryDevice) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology cluster, ApplyWhatIf("memory=8GiB,speed=2", Servers(1, 2)));
  for (const DeviceInfo& device : cluster.devices) {
    EXPECT_EQ(device.memory_bytes, int64_t{8} << 30);
    EXPECT_EQ(device.speed, 2);
  }
  ASSERT_OK_AND_ASSIGN(cluster, ApplyWhatIf("speed=2", cluster));
  EXPECT_EQ(cluster.devices[0].speed, 4);
}

TEST(WhatIfTest, OneWorkerGrowsIfItIsToldHowItIsLinked) {
  ClusterTopology one;
  one.devices = {{"solo", "cpu", 1, "here", 1}};
  EXPECT_THAT(
      ApplyWhatIf("workers=2", one).status(),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("workers: the topology has no link")));
  ASSERT_OK_AND_ASSIGN(ClusterTopology two, ApplyWhatIf("workers=3,link=8G", one));
  EXPECT_EQ(two.devices[1].worker_id, "solo-copy-1");
  EXPECT_EQ(two.links.size(), 6u);
  EXPECT_EQ(two.links[0].bandwidth_bytes_per_s, 1e9);
}

TEST(WhatIfTest, NamesTheKeyThatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "found nothing"},
      {"workers", "found 'workers', expected KEY=VALUE"},
      {"worker=8", "there is no key 'worker'; did you mean 'workers'?"},
      {"workers=2,workers=3", "workers is given twice"},
      {"workers=0", "workers: found '0', expected more than 0"},
      {"workers=1.5", "workers: found '1.5', expected a whole number"},
      {"workers=2000", "expected a whole number from 1 to 1024"},
      {"link=fast", "link: 'fast' is not a bit rate"},
      {"memory=lots", "memory: 'lots' is not a size"},
      {"latency=x", "latency: 'x' is not a duration"},
      {"speed=-1", "speed: found '-1', expected more than 0"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ApplyWhatIf(text, Servers(2, 2)).status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  }
  EXPECT_THAT(ApplyWhatIf("link=1G", Servers(4, 1)).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("all workers are on one host")));
}

}  // namespace
}  // namespace pipedream
