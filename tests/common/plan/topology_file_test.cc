#include "common/plan/topology_file.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

constexpr char kServers[] = R"(
levels:
  - {count: 2, bandwidth_bytes_per_s: 1.0e10, latency_s: 5e-6, shared: false}
  - {count: 3, bandwidth_bytes_per_s: 1.25e9, latency_s: 30us, shared: true}
device: {memory_bytes: 16GiB, speed: 1.5}
)";

const LinkInfo& Link(const ClusterTopology& topology, int from, int to) {
  for (const LinkInfo& link : topology.links)
    if (link.from == from && link.to == to) return link;
  static const LinkInfo kNone;
  ADD_FAILURE() << "no link from " << from << " to " << to;
  return kNone;
}

TEST(TopologyFileTest, LevelsSayWhoIsLinkedHow) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology topology, ParseTopology(kServers, "c.yaml"));
  ASSERT_EQ(topology.devices.size(), 6u);
  EXPECT_EQ(topology.devices[5],
            (DeviceInfo{"worker-5", "published", int64_t{16} << 30, "host-2", 1.5}));
  EXPECT_EQ(topology.links.size(), 30u);
  EXPECT_EQ(Link(topology, 2, 3).bandwidth_bytes_per_s, 1e10);
  EXPECT_EQ(Link(topology, 2, 3).latency_s, 5e-6);
  EXPECT_EQ(Link(topology, 1, 2).bandwidth_bytes_per_s, 1.25e9);
  EXPECT_DOUBLE_EQ(Link(topology, 1, 2).latency_s, 30e-6);
}

TEST(TopologyFileTest, ASharedLevelHasAPortPerGroupBelowAndOthersOnePerDevice) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology topology, ParseTopology(kServers, "c.yaml"));
  ASSERT_EQ(topology.ports.size(), 6u + 3);
  const auto port = [&](int index) { return topology.ports.at(index); };
  EXPECT_EQ(port(Link(topology, 2, 3).out_port), (PortInfo{"worker-2", 1e10}));
  EXPECT_EQ(port(Link(topology, 2, 3).in_port), (PortInfo{"worker-3", 1e10}));
  for (const int from : {2, 3}) {
    EXPECT_EQ(port(Link(topology, from, 0).out_port), (PortInfo{"host-1", 1.25e9}));
    EXPECT_EQ(port(Link(topology, 0, from).in_port), (PortInfo{"host-1", 1.25e9}));
  }
}

TEST(TopologyFileTest, AFlatClusterHasAHostPerDevice) {
  ASSERT_OK_AND_ASSIGN(
      ClusterTopology topology,
      ParseTopology("levels: [{count: 4, bandwidth_bytes_per_s: 125e6}]", "c.yaml"));
  ASSERT_EQ(topology.devices.size(), 4u);
  EXPECT_EQ(topology.devices[3].host_id, "host-3");
  EXPECT_EQ(topology.devices[3].memory_bytes, 0);
  EXPECT_EQ(topology.ports.size(), 4u);
}

TEST(TopologyFileTest, LevelsOfOneLinkNothing) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology one, ParseTopology("levels: [{count: 1}]", "c.yaml"));
  EXPECT_EQ(one.devices.size(), 1u);
  EXPECT_TRUE(one.links.empty());
  ASSERT_OK_AND_ASSIGN(
      ClusterTopology hosts,
      ParseTopology("levels: [{count: 1}, {count: 3, bandwidth_bytes_per_s: 1e9, shared: true}]",
                    "c.yaml"));
  EXPECT_EQ(hosts.devices[2].host_id, "host-2");
  EXPECT_EQ(hosts.ports.size(), 3u);
}

TEST(TopologyFileTest, JsonIsReadAlike) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology yaml, ParseTopology(kServers, "c.yaml"));
  ASSERT_OK_AND_ASSIGN(ClusterTopology json, ParseTopology(R"({"levels": [
      {"count": 2, "bandwidth_bytes_per_s": 1.0e10, "latency_s": 5e-6, "shared": false},
      {"count": 3, "bandwidth_bytes_per_s": 1250000000, "latency_s": 3e-5, "shared": true}],
      "device": {"memory_bytes": 17179869184, "speed": 1.5}})",
                                                           "c.json"));
  EXPECT_EQ(yaml, json);
}

constexpr char kUnlike[] = R"(
devices:
  - {name: big, kind: gpu, memory_bytes: 24e9, speed: 2, host: a}
  - {name: small, memory_bytes: 8e9, host: a}
  - {name: far}
ports:
  - {name: nic-a, bandwidth_bytes_per_s: 1.25e9}
links:
  - {from: big, to: small, bandwidth_bytes_per_s: 5e9, transport: shm}
  - {from: big, to: far, bandwidth_bytes_per_s: 1e9, latency_s: 1e-4, out_port: nic-a}
  - {from: small, to: far, bandwidth_bytes_per_s: 1e9, out_port: nic-a, one_way: true}
  - {from: far, to: small, bandwidth_bytes_per_s: 5e8, in_port: nic-a}
)";

TEST(TopologyFileTest, UnlikeMachinesAreListed) {
  ASSERT_OK_AND_ASSIGN(ClusterTopology topology, ParseTopology(kUnlike, "c.yaml"));
  EXPECT_EQ(topology.devices[0], (DeviceInfo{"big", "gpu", 24'000'000'000, "a", 2}));
  EXPECT_EQ(topology.devices[2], (DeviceInfo{"far", "published", 0, "far", 1}));
  EXPECT_EQ(topology.links.size(), 6u);
  EXPECT_EQ(Link(topology, 1, 0), (LinkInfo{1, 0, 5e9, 0, "shm"}));
  EXPECT_EQ(Link(topology, 2, 0), (LinkInfo{2, 0, 1e9, 1e-4, "", -1, 0}));
  EXPECT_EQ(Link(topology, 1, 2).bandwidth_bytes_per_s, 1e9);
  EXPECT_EQ(Link(topology, 2, 1).bandwidth_bytes_per_s, 5e8);
}

TEST(TopologyFileTest, FormatAndParseAreInverses) {
  for (const char* text : {kServers, kUnlike}) {
    ASSERT_OK_AND_ASSIGN(ClusterTopology topology, ParseTopology(text, "c.yaml"));
    ASSERT_OK_AND_ASSIGN(ClusterTopology back, ParseTopology(FormatTopology(topology), "d"));
    EXPECT_EQ(back, topology);
  }
  ClusterTopology odd;
  odd.devices = {{"a \"b\"\\", "x: y", 1, "#", 0.1}, {"- n", "k", 1, "h\n", 1.0 / 3}};
  odd.links = {{0, 1, 1.0 / 7, 1e-300, "tcp"}};
  ASSERT_OK_AND_ASSIGN(ClusterTopology back, ParseTopology(FormatTopology(odd), "d"));
  EXPECT_EQ(back, odd);
}

TEST(TopologyFileTest, SaysWhatIsWrongAndWhere) {
  const std::string level = "{count: 4, bandwidth_bytes_per_s: 1e9}";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "f: expected a cluster"},
      {"levels: [", "f:1: not valid YAML"},
      {"{}", "expected levels and device, or devices and links"},
      {"levels: []", "f:1: levels: expected at least one level"},
      {"levels:\n  - {count: 4, bandwith: 1}",
       "f:2: levels[0].bandwith: unknown key; did you mean"},
      {"levels: [{count: 4}]", "levels[0].bandwidth_bytes_per_s: is 0, expected a number greater"},
      {"levels: [{count: 4, bandwidth_bytes_per_s: fast}]", "'fast' is not a size"},
      {"levels: [{count: 0, bandwidth_bytes_per_s: 1}]",
       "levels[0].count: is 0, expected at least"},
      {"levels: [{count: 4, bandwidth_bytes_per_s: 1, latency_s: -1}]", "levels[0].latency_s"},
      {"levels:\n- " + level + "\n- {count: 257, bandwidth_bytes_per_s: 1}",
       "f:3: levels[1].count: comes to 1028 devices, expected at most 1024"},
      {"levels: [" + level + "]\ndevices: [{}]", "exclude one another"},
      {"levels: [" + level + "]\nlinks: []", "links: levels say them already"},
      {"levels: [" + level + "]\ndevice: {speed: 0}", "device.speed: is 0"},
      {"devices: []", "devices: expected at least one device"},
      {"devices: [{name: a}, {name: a}]", "devices[1].name: there are two devices 'a'"},
      {"devices: [{}]\ndevice: {speed: 2}", "device: is for levels"},
      {"devices: [{name: a}]\nlinks:\n  - {from: a, to: b}",
       "f:3: links[0].to: there is no device 'b'"},
      {"devices: [{name: a}, {}]\nlinks: [{from: a, to: a, bandwidth_bytes_per_s: 1}]",
       "a device has no link to itself"},
      {"devices: [{name: a}, {name: b}]\nlinks: [{from: a, to: b, bandwidth_bytes_per_s: 1, "
       "in_port: p}]",
       "links[0].in_port: there is no port 'p'"},
      {"devices: [{name: a}]\nports: [{name: p, bandwidth_bytes_per_s: 0}]", "ports[0].bandwidth"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParseTopology(text, "f").status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  }
}

}  // namespace
}  // namespace pipedream
