#include "coordinator/cluster/link_probes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pipedream {

std::vector<LinkProbe> ChooseProbes(const std::vector<WorkerInfo>& workers) {
  std::vector<std::pair<std::string, std::vector<const WorkerInfo*>>> hosts;
  for (const WorkerInfo& worker : workers) {
    const std::string& host = worker.data_address.host_id;
    auto it = std::find_if(hosts.begin(), hosts.end(), [&](auto& h) { return h.first == host; });
    if (it == hosts.end()) it = hosts.insert(it, {host, {}});
    it->second.push_back(&worker);
  }
  std::vector<LinkProbe> probes;
  size_t n = hosts.size();
  for (size_t a = 0; a < n; ++a) {
    if (hosts[a].second.size() > 1) probes.push_back({*hosts[a].second[0], *hosts[a].second[1]});
    for (size_t b = 0; b < n; ++b) {
      bool neighbours = (a + 1) % n == b || (b + 1) % n == a;
      if (a != b && (n <= kMaxMeshHosts || neighbours))
        probes.push_back({*hosts[a].second[0], *hosts[b].second[0]});
    }
  }
  return probes;
}

ClusterTopology MakeTopology(const std::vector<WorkerInfo>& workers,
                             const std::vector<LinkMeasurement>& measurements) {
  std::map<std::pair<std::string, std::string>, const LinkMeasurement*> by_hosts;
  for (const LinkMeasurement& m : measurements) by_hosts[{m.from_host, m.to_host}] = &m;
  ClusterTopology topology;
  for (const WorkerInfo& w : workers)
    topology.devices.push_back({w.id, w.device_kind, w.memory_bytes, w.data_address.host_id});
  for (size_t i = 0; i < workers.size(); ++i) {
    for (size_t j = 0; j < workers.size(); ++j) {
      if (i == j) continue;
      auto it = by_hosts.find({workers[i].data_address.host_id, workers[j].data_address.host_id});
      if (it == by_hosts.end()) continue;
      topology.links.push_back({static_cast<int>(i), static_cast<int>(j),
                                it->second->bandwidth_bytes_per_s, it->second->latency_s,
                                it->second->transport});
    }
  }
  return topology;
}

}  // namespace pipedream
