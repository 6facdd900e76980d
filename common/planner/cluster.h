// A topology as the planner reads it: who reaches whom how fast, what they share, who is like whom.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "common/plan/profile.h"
#include "common/plan/topology.h"
#include "common/schedule/simulate.h"

namespace pipedream {

class Cluster {
 public:
  // Keeps `devices` of the topology, in this order; below, a device is its position there.
  // REQUIRES: a checked request (check_request.h), each device's kind among the profiles.
  Cluster(const ClusterTopology& topology, const std::vector<Profile>& profiles,
          const std::vector<int>& devices);

  int size() const { return static_cast<int>(devices_.size()); }
  // Of the topology's devices.
  int device(int d) const { return devices_[d]; }
  // Which profile, and how much faster than it.
  int profile(int d) const { return profile_[d]; }
  double speed(int d) const { return speed_[d]; }
  int64_t memory_bytes(int d) const { return memory_[d]; }  // 0: not known
  int host(int d) const { return host_[d]; }
  // Devices of one class can stand in for one another in every plan.
  int device_class(int d) const { return class_[d]; }

  const PathCosts& path(int from, int to) const { return paths_[from * size() + to]; }
  // Bytes per second, by PathCosts::out_port and in_port.
  const std::vector<double>& ports() const { return ports_; }
  // The slowest way between any two of these devices; infinite for one.
  double SlowestBandwidth(const std::vector<int>& devices) const;
  // Of a ring through these devices in their order: seconds per byte that each sends on, when all
  // send at once, and the longest latency. Zero for one device.
  double RingSecondsPerByte(const std::vector<int>& devices) const;
  double RingLatency(const std::vector<int>& devices) const;

 private:
  std::vector<int> devices_;
  std::vector<int> profile_;
  std::vector<double> speed_;
  std::vector<int64_t> memory_;
  std::vector<int> host_;
  std::vector<int> class_;
  std::vector<PathCosts> paths_;
  std::vector<double> ports_;
};

}  // namespace pipedream
