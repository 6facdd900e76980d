#include "common/planner/cluster.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>

namespace pipedream {

Cluster::Cluster(const ClusterTopology& topology, const std::vector<Profile>& profiles,
                 const std::vector<int>& devices)
    : devices_(devices) {
  std::map<std::string, int> hosts;
  std::map<int, int> position;  // of a device of the topology
  for (const int d : devices_) {
    const DeviceInfo& device = topology.devices[d];
    position[d] = static_cast<int>(profile_.size());
    int kind = 0;
    for (size_t p = 0; p < profiles.size(); ++p)
      if (profiles[p].device_kind == device.kind) kind = static_cast<int>(p);
    profile_.push_back(kind);
    speed_.push_back(device.speed);
    memory_.push_back(device.memory_bytes);
    host_.push_back(hosts.try_emplace(device.host_id, static_cast<int>(hosts.size())).first->second);
  }
  for (const PortInfo& port : topology.ports) ports_.push_back(port.bandwidth_bytes_per_s);
  PathCosts slowest{.latency_s = 0, .bandwidth_bytes_per_s = 0, .out_port = -1, .in_port = -1};
  for (const LinkInfo& link : topology.links) {
    if (slowest.bandwidth_bytes_per_s == 0 ||
        link.bandwidth_bytes_per_s < slowest.bandwidth_bytes_per_s)
      slowest.bandwidth_bytes_per_s = link.bandwidth_bytes_per_s;
    slowest.latency_s = std::max(slowest.latency_s, link.latency_s);
  }
  // A port that a device uses to others serves those that are not listed, too.
  std::vector<int> out_port(size(), -1), in_port(size(), -1);
  paths_.assign(static_cast<size_t>(size()) * size(), slowest);
  std::vector<bool> listed(paths_.size());
  for (const LinkInfo& link : topology.links) {
    const auto from = position.find(link.from), to = position.find(link.to);
    if (from == position.end() || to == position.end()) continue;
    const size_t way = static_cast<size_t>(from->second) * size() + to->second;
    if (listed[way] && paths_[way].bandwidth_bytes_per_s <= link.bandwidth_bytes_per_s) continue;
    listed[way] = true;
    paths_[way] = {link.latency_s, link.bandwidth_bytes_per_s, link.out_port, link.in_port};
    if (link.out_port >= 0) out_port[from->second] = link.out_port;
    if (link.in_port >= 0) in_port[to->second] = link.in_port;
  }
  for (int a = 0; a < size(); ++a) {
    for (int b = 0; b < size(); ++b) {
      const size_t way = static_cast<size_t>(a) * size() + b;
      if (listed[way]) continue;
      paths_[way].out_port = out_port[a];
      paths_[way].in_port = in_port[b];
    }
  }
  // Alike: the same to work with, on one host, and the same ways to all others.
  std::map<std::tuple<int, double, int64_t, int>, std::vector<int>> candidates;
  int classes = 0;
  for (int d = 0; d < size(); ++d) {
    std::vector<int>& group = candidates[{profile_[d], speed_[d], memory_[d], host_[d]}];
    int found = -1;
    for (const int other : group) {
      bool alike = true;
      const auto same = [](const PathCosts& x, const PathCosts& y, bool ports) {
        return x.bandwidth_bytes_per_s == y.bandwidth_bytes_per_s && x.latency_s == y.latency_s &&
               (!ports || (x.out_port == y.out_port && x.in_port == y.in_port));
      };
      for (int third = 0; alike && third < size(); ++third) {
        if (third == d || third == other) continue;
        alike = same(path(d, third), path(other, third), true) &&
                same(path(third, d), path(third, other), true);
      }
      alike = alike && same(path(d, other), path(other, d), false);
      if (alike) {
        found = class_[other];
        break;
      }
    }
    if (found < 0) {
      found = classes++;
      group.push_back(d);
    }
    class_.push_back(found);
  }
}

double Cluster::SlowestBandwidth(const std::vector<int>& devices) const {
  double slowest = std::numeric_limits<double>::infinity();
  for (const int a : devices)
    for (const int b : devices)
      if (a != b) slowest = std::min(slowest, path(a, b).bandwidth_bytes_per_s);
  return slowest;
}

double Cluster::RingSecondsPerByte(const std::vector<int>& devices) const {
  if (devices.size() < 2) return 0;
  std::map<int, double> out, in;  // seconds per byte of each port
  double slowest = 0;
  for (size_t k = 0; k < devices.size(); ++k) {
    const PathCosts& way = path(devices[k], devices[(k + 1) % devices.size()]);
    slowest = std::max(slowest, 1 / way.bandwidth_bytes_per_s);
    if (way.out_port >= 0) slowest = std::max(slowest, out[way.out_port] += 1 / ports_[way.out_port]);
    if (way.in_port >= 0) slowest = std::max(slowest, in[way.in_port] += 1 / ports_[way.in_port]);
  }
  return slowest;
}

double Cluster::RingLatency(const std::vector<int>& devices) const {
  double longest = 0;
  for (size_t k = 0; devices.size() > 1 && k < devices.size(); ++k)
    longest = std::max(longest, path(devices[k], devices[(k + 1) % devices.size()]).latency_s);
  return longest;
}

}  // namespace pipedream
