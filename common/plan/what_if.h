// "What if I had 8 workers, or 25 Gb/s?": a topology that differs from a given one.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>

#include "common/plan/topology.h"

namespace pipedream {

// Applies "workers=8,link=25G,memory=16GiB,latency=50us,speed=2"; any of the keys, each once:
//   workers  so many: the first of the topology, or with copies of its hosts behind them. Whoever
//   is
//            on another host is reached like the slowest link between hosts, each copy through
//            ports of its own.
//   link     bit rate of all links between hosts, and of the ports that these go through
//   latency  of all links between hosts
//   memory   of every device
//   speed    every device is so many times faster than it is
// kInvalidArgument names the key, what was found and what is expected.
absl::StatusOr<ClusterTopology> ApplyWhatIf(std::string_view changes, ClusterTopology topology);

}  // namespace pipedream
