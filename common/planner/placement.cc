#include "common/planner/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>

namespace pipedream {
namespace {

// Bandwidth between two devices: the slower direction; the slowest listed where none is listed.
class Bandwidths {
 public:
  explicit Bandwidths(const ClusterTopology& topology) {
    for (const LinkInfo& link : topology.links) {
      const double bandwidth = link.bandwidth_bytes_per_s;
      slowest_ = links_.empty() ? bandwidth : std::min(slowest_, bandwidth);
      const auto [it, fresh] = links_.try_emplace({link.from, link.to}, bandwidth);
      if (!fresh) it->second = std::min(it->second, bandwidth);
    }
  }
  double Between(int a, int b) const { return std::min(OneWay(a, b), OneWay(b, a)); }

 private:
  double OneWay(int from, int to) const {
    const auto it = links_.find({from, to});
    return it == links_.end() ? slowest_ : it->second;
  }
  std::map<std::pair<int, int>, double> links_;
  double slowest_ = 0;
};

}  // namespace

std::vector<int> OrderWorkers(const ClusterTopology& topology) {
  std::map<std::string, std::vector<int>> hosts;
  for (size_t d = 0; d < topology.devices.size(); ++d)
    hosts[topology.devices[d].host_id].push_back(static_cast<int>(d));
  const Bandwidths bandwidths(topology);
  std::vector<int> order;
  while (!hosts.empty()) {
    auto best = hosts.begin();
    std::tuple<size_t, double> best_key{0, 0};
    for (auto it = hosts.begin(); it != hosts.end(); ++it) {
      double fastest = 0;
      for (const int placed : order)
        for (const int device : it->second)
          fastest = std::max(fastest, bandwidths.Between(placed, device));
      const std::tuple<size_t, double> key{it->second.size(), fastest};
      if (it == hosts.begin() || key > best_key) {
        best = it;
        best_key = key;
      }
    }
    order.insert(order.end(), best->second.begin(), best->second.end());
    hosts.erase(best);
  }
  return order;
}

std::vector<double> SlowestBandwidths(const ClusterTopology& topology,
                                      const std::vector<int>& order) {
  const Bandwidths bandwidths(topology);
  std::vector<double> out;
  double slowest = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < order.size(); ++k) {
    for (size_t other = 0; other < k; ++other)
      slowest = std::min(slowest, bandwidths.Between(order[k], order[other]));
    out.push_back(slowest);
  }
  return out;
}

}  // namespace pipedream
