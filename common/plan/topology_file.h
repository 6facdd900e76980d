// Clusters as files, for planning without them: YAML, or the same as JSON (docs/planner.md).
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/plan/topology.h"

namespace pipedream {

// More than a plan is ever made for.
inline constexpr int kMaxTopologyDevices = 1024;

// Kind of the devices of a file that names none: they stand for any.
inline constexpr char kAnyDeviceKind[] = "published";

// Reads either form:
//
//   levels:                      # equal devices; lowest first
//     - {count: 4, bandwidth_bytes_per_s: 1.0e10, latency_s: 5e-6, shared: false}
//     - {count: 4, bandwidth_bytes_per_s: 1.25e9, latency_s: 3e-5, shared: true}
//   device: {memory_bytes: 16e9, speed: 1.0, kind: published}
//
//   devices: [{name, kind, memory_bytes, speed, host}]
//   ports: [{name, bandwidth_bytes_per_s}]
//   links: [{from, to, bandwidth_bytes_per_s, latency_s, transport, out_port, in_port, one_way}]
//
// Levels: devices whose lowest common level is k are linked with that level's bandwidth and
// latency. Where it is not shared each device has a port of its own for these links; where it is,
// the devices of one group of the level below share one (a server's network interface). Groups of
// the lowest level are hosts; with a single level every device is a host of its own.
// Links: a link whose reverse is not listed goes both ways unless it is one_way.
// kInvalidArgument names file, line, field, what was found and what is expected.
absl::StatusOr<ClusterTopology> ParseTopology(std::string_view text, std::string_view file_name);

// The explicit form; ParseTopology gives the topology back. REQUIRES: distinct worker ids, distinct
// port names.
std::string FormatTopology(const ClusterTopology& topology);

}  // namespace pipedream
