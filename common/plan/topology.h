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
  bool operator==(const DeviceInfo&) const = default;
};

// One direction.
struct LinkInfo {
  int from = 0;                 // indices into devices
  int to = 0;
  double bandwidth_bytes_per_s = 0;
  double latency_s = 0;
  std::string transport;        // "shm", "tcp", ...
  bool operator==(const LinkInfo&) const = default;
};

struct ClusterTopology {
  std::vector<DeviceInfo> devices;
  std::vector<LinkInfo> links;  // pairs not listed have the slowest listed bandwidth
  bool operator==(const ClusterTopology&) const = default;
};

}  // namespace pipedream
