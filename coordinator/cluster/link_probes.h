// Which links to measure so that the planner knows all of them. Pure functions.
//
// Workers on one host reach each other alike, so each ordered pair of hosts (a host with itself
// included) is measured once, between two of its workers, and stands for all. Up to kMaxMeshHosts
// hosts every ordered pair is measured; beyond, a ring in both directions, and the planner takes
// the slowest for what is not listed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/plan/topology.h"
#include "coordinator/cluster/worker_info.h"

namespace pipedream {

inline constexpr size_t kMaxMeshHosts = 8;

struct LinkProbe {
  WorkerInfo from;  // sends
  WorkerInfo to;
  bool operator==(const LinkProbe&) const = default;
};

struct LinkMeasurement {
  std::string from_host;
  std::string to_host;
  double bandwidth_bytes_per_s = 0;
  double latency_s = 0;
  std::string transport;  // that was used
  bool operator==(const LinkMeasurement&) const = default;
};

// In a fixed order. Empty for fewer than two workers.
std::vector<LinkProbe> ChooseProbes(const std::vector<WorkerInfo>& workers);

// Speeds this near to each other count as equal: measurements of the same worker differ by as much.
inline constexpr double kSameSpeed = 0.15;

// Devices in the order of `workers`; a link for every ordered pair whose hosts were measured. Links
// between hosts share each host's port, whose bandwidth is the largest that was measured from or to
// it; links within a host share nothing. `profiled`: WorkerInfo::speed of the worker that was
// profiled, by device kind; a device's speed is relative to it, or, where it is missing or unknown,
// to the first worker of the kind whose speed is known. A worker of unknown speed counts as 1.
ClusterTopology MakeTopology(const std::vector<WorkerInfo>& workers,
                             const std::vector<LinkMeasurement>& measurements,
                             const std::map<std::string, double>& profiled = {});

}  // namespace pipedream
