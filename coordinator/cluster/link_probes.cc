#include "coordinator/cluster/link_probes.h"

#include <algorithm>
#include <cmath>
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

namespace {

class TopologyMaker {
 public:
  TopologyMaker(const std::vector<WorkerInfo>& workers,
                const std::vector<LinkMeasurement>& measurements,
                const std::map<std::string, double>& profiled)
      : workers_(workers), profiled_(profiled) {
    for (const LinkMeasurement& m : measurements) by_hosts_[{m.from_host, m.to_host}] = &m;
  }

  ClusterTopology Make() {
    for (const WorkerInfo& w : workers_)
      topology_.devices.push_back(
          {w.id, w.device_kind, w.memory_bytes, w.data_address.host_id, RelativeSpeed(w)});
    for (size_t i = 0; i < workers_.size(); ++i)
      for (size_t j = 0; j < workers_.size(); ++j)
        if (i != j) AddLink(static_cast<int>(i), static_cast<int>(j));
    return std::move(topology_);
  }

 private:
  double RelativeSpeed(const WorkerInfo& worker) {
    if (worker.speed <= 0) return 1;
    double& reference = references_[worker.device_kind];
    if (reference <= 0) {
      const auto profiled = profiled_.find(worker.device_kind);
      reference =
          profiled != profiled_.end() && profiled->second > 0 ? profiled->second : worker.speed;
    }
    const double relative = worker.speed / reference;
    return std::abs(relative - 1) <= kSameSpeed ? 1 : relative;
  }

  void AddLink(int from, int to) {
    const std::string& a = workers_[from].data_address.host_id;
    const std::string& b = workers_[to].data_address.host_id;
    const auto it = by_hosts_.find({a, b});
    if (it == by_hosts_.end()) return;
    const LinkMeasurement& m = *it->second;
    LinkInfo link{from, to, m.bandwidth_bytes_per_s, m.latency_s, m.transport};
    if (a != b) {
      link.out_port = PortOf(a, m.bandwidth_bytes_per_s);
      link.in_port = PortOf(b, m.bandwidth_bytes_per_s);
    }
    topology_.links.push_back(std::move(link));
  }

  int PortOf(const std::string& host, double bandwidth) {
    const auto [it, added] = ports_.try_emplace(host, static_cast<int>(topology_.ports.size()));
    if (added) topology_.ports.push_back({host, 0});
    double& widest = topology_.ports[it->second].bandwidth_bytes_per_s;
    widest = std::max(widest, bandwidth);
    return it->second;
  }

  const std::vector<WorkerInfo>& workers_;
  const std::map<std::string, double>& profiled_;
  std::map<std::pair<std::string, std::string>, const LinkMeasurement*> by_hosts_;
  std::map<std::string, double> references_;  // by kind
  std::map<std::string, int> ports_;          // by host
  ClusterTopology topology_;
};

}  // namespace

ClusterTopology MakeTopology(const std::vector<WorkerInfo>& workers,
                             const std::vector<LinkMeasurement>& measurements,
                             const std::map<std::string, double>& profiled) {
  return TopologyMaker(workers, measurements, profiled).Make();
}

}  // namespace pipedream
