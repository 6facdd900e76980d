// Devices and links of a job, as measured; a value, without liveness.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipedream {

struct DeviceInfo {
  std::string worker_id;
  std::string kind;             // equal kinds share a profile
  int64_t memory_bytes = 0;     // usable by a job
  std::string host_id;
  // Of its kind: a node takes its profile's time divided by this.
  double speed = 1;
  bool operator==(const DeviceInfo&) const = default;
};

// What several links share: a network interface, a switch. Full duplex: so much in each direction.
struct PortInfo {
  std::string name;
  double bandwidth_bytes_per_s = 0;
  bool operator==(const PortInfo&) const = default;
};

// One direction.
struct LinkInfo {
  int from = 0;                 // indices into devices
  int to = 0;
  double bandwidth_bytes_per_s = 0;
  double latency_s = 0;
  std::string transport;        // "shm", "tcp", ...
  int out_port = -1;            // index into ports: what leaves `from`; -1: shares nothing
  int in_port = -1;             // what comes to `to`
  bool operator==(const LinkInfo&) const = default;
};

struct ClusterTopology {
  std::vector<DeviceInfo> devices;
  std::vector<LinkInfo> links;  // pairs not listed have the slowest listed bandwidth
  std::vector<PortInfo> ports;
  bool operator==(const ClusterTopology&) const = default;
};

}  // namespace pipedream
