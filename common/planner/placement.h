// Which workers serve which stages.
#pragma once

#include <vector>

#include "common/plan/topology.h"

namespace pipedream {

// Indices into topology.devices in the order in which stages take them: devices of one host side by
// side, so that neighbouring stages and replicas share a host where they can. Hosts with more
// devices come first, then the host with the fastest link to those placed, then by host id; any
// prefix is a sensible choice of that many workers.
std::vector<int> OrderWorkers(const ClusterTopology& topology);

// Slowest bandwidth, in either direction, among the first 1, 2, ... workers of `order`: element k
// is for k + 1 workers; the first is infinite. 0 where the topology lists no link at all.
std::vector<double> SlowestBandwidths(const ClusterTopology& topology,
                                      const std::vector<int>& order);

}  // namespace pipedream
