#include "common/plan/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/nearest_name.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/plan/topology_file.h"

namespace pipedream {
namespace {

struct Changes {
  int workers = 0;             // 0: as they are
  std::optional<double> link;  // bytes per second
  std::optional<double> latency_s;
  std::optional<int64_t> memory_bytes;
  std::optional<double> speed;
};

absl::StatusOr<std::map<std::string, std::string>> SplitChanges(std::string_view text) {
  const std::vector<std::string> known = {"workers", "link", "latency", "memory", "speed"};
  std::map<std::string, std::string> values;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals + 1 == item.size()) {
      return InvalidArgument(
          "what-if: found '{}', expected KEY=VALUE such as workers=8 or link=25G", item);
    }
    const std::string key(item.substr(0, equals));
    if (std::ranges::find(known, key) == known.end()) {
      return InvalidArgument("what-if: there is no key '{}'; did you mean '{}'? Known: {}", key,
                             NearestName(key, known), fmt::join(known, ", "));
    }
    if (!values.emplace(key, item.substr(equals + 1)).second)
      return InvalidArgument("what-if: {} is given twice", key);
  }
  if (values.empty())
    return InvalidArgument("what-if: found nothing, expected for example workers=8,link=25G");
  return values;
}

// The value of `key` by `parse`, positive; nullopt if it is not given.
template <typename Parse, typename T>
absl::Status Read(const std::map<std::string, std::string>& values, const std::string& key,
                  Parse parse, bool positive, std::optional<T>* out) {
  const auto found = values.find(key);
  if (found == values.end()) return absl::OkStatus();
  auto value = parse(found->second);
  if (!value.ok()) {
    return InvalidArgument(
        "what-if: {}: {}", key,
        std::string(value.status().message().data(), value.status().message().size()));
  }
  if (positive && !(*value > 0)) {
    return InvalidArgument("what-if: {}: found '{}', expected more than 0", key, found->second);
  }
  *out = static_cast<T>(*value);
  return absl::OkStatus();
}

absl::StatusOr<double> ParseNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number < 1e9))
    return InvalidArgument("'{}' is not a number below 1e9", text);
  return number;
}

absl::StatusOr<Changes> ParseChanges(std::string_view text) {
  PD_ASSIGN_OR_RETURN(const auto values, SplitChanges(text));
  Changes changes;
  std::optional<double> workers;
  PD_RETURN_IF_ERROR(Read(values, "workers", ParseNumber, true, &workers));
  PD_RETURN_IF_ERROR(Read(values, "link", ParseBitRate, true, &changes.link));
  PD_RETURN_IF_ERROR(Read(values, "latency", ParseSeconds, false, &changes.latency_s));
  PD_RETURN_IF_ERROR(Read(values, "memory", ParseBytes, true, &changes.memory_bytes));
  PD_RETURN_IF_ERROR(Read(values, "speed", ParseNumber, true, &changes.speed));
  if (workers) {
    if (*workers > kMaxTopologyDevices || *workers != static_cast<int>(*workers)) {
      return InvalidArgument("what-if: workers: found '{}', expected a whole number from 1 to {}",
                             values.at("workers"), kMaxTopologyDevices);
    }
    changes.workers = static_cast<int>(*workers);
  }
  return changes;
}

bool BetweenHosts(const ClusterTopology& topology, const LinkInfo& link) {
  return topology.devices[link.from].host_id != topology.devices[link.to].host_id;
}

// What a way between hosts is at worst.
struct Way {
  double bandwidth = 0;  // 0: none is known
  double latency_s = 0;
  std::string transport;
};

Way SlowestWay(const ClusterTopology& topology) {
  Way way;
  for (const bool any : {false, true}) {
    for (const LinkInfo& link : topology.links) {
      if (!any && !BetweenHosts(topology, link)) continue;
      if (way.bandwidth == 0 || link.bandwidth_bytes_per_s < way.bandwidth) {
        way.bandwidth = link.bandwidth_bytes_per_s;
        way.transport = link.transport;
      }
      way.latency_s = std::max(way.latency_s, link.latency_s);
    }
    if (way.bandwidth > 0) break;  // without links between hosts those inside must do
  }
  return way;
}

void KeepFirst(int workers, ClusterTopology* topology) {
  topology->devices.resize(workers);
  std::erase_if(topology->links,
                [&](const LinkInfo& link) { return link.from >= workers || link.to >= workers; });
}

std::string UniqueName(std::string name, int round, const std::set<std::string>& taken) {
  name = fmt::format("{}-copy-{}", name, round);
  while (taken.contains(name)) name += "'";
  return name;
}

// Appends copies of the devices, host by host, until there are `workers`.
class Copies {
 public:
  Copies(ClusterTopology* topology, Way way)
      : topology_(topology), way_(std::move(way)), before_(*topology) {
    for (const DeviceInfo& device : before_.devices) {
      ids_.insert(device.worker_id);
      hosts_.insert(device.host_id);
    }
    for (const PortInfo& port : before_.ports) ports_.insert(port.name);
    out_.assign(before_.devices.size(), -1);
    in_ = out_;
    for (const LinkInfo& link : before_.links) {
      if (!BetweenHosts(before_, link)) continue;
      if (out_[link.from] < 0) out_[link.from] = link.out_port;
      if (in_[link.to] < 0) in_[link.to] = link.in_port;
    }
  }

  void AddUpTo(int workers) {
    const int old = static_cast<int>(before_.devices.size());
    std::vector<int> out = out_, in = in_;
    for (int d = old; d < workers; ++d) {
      const int round = d / old, source = d % old;
      DeviceInfo device = before_.devices[source];
      device.worker_id = NewId(device.worker_id, d, round);
      device.host_id = Named(&new_hosts_, {device.host_id, round}, hosts_);
      topology_->devices.push_back(std::move(device));
      out.push_back(Port(out_[source], round));
      in.push_back(Port(in_[source], round));
    }
    std::map<std::pair<int, int>, LinkInfo> known;
    for (const LinkInfo& link : before_.links) known[{link.from, link.to}] = link;
    for (int from = 0; from < workers; ++from) {
      for (int to = 0; to < workers; ++to) {
        if (from == to || (from < old && to < old)) continue;
        const auto inside = known.find({from % old, to % old});
        const bool together = topology_->devices[from].host_id == topology_->devices[to].host_id;
        if (!together) {
          topology_->links.push_back(
              {from, to, way_.bandwidth, way_.latency_s, way_.transport, out[from], in[to]});
        } else if (inside != known.end()) {
          LinkInfo link = inside->second;
          link.from = from;
          link.to = to;
          link.out_port = Port(link.out_port, from / old);
          link.in_port = Port(link.in_port, to / old);
          topology_->links.push_back(std::move(link));
        }
      }
    }
  }

 private:
  // "worker-7" behind "worker-0" .. "worker-6"; else a copy's name.
  std::string NewId(const std::string& source, int device, int round) {
    std::string id = fmt::format("worker-{}", device);
    if (!source.starts_with("worker-") || ids_.contains(id)) id = UniqueName(source, round, ids_);
    ids_.insert(id);
    return id;
  }

  static std::string Named(std::map<std::pair<std::string, int>, std::string>* names,
                           const std::pair<std::string, int>& source,
                           const std::set<std::string>& taken) {
    std::string& name = (*names)[source];
    if (name.empty()) name = UniqueName(source.first, source.second, taken);
    return name;
  }

  int Port(int port, int round) {
    if (port < 0 || round == 0) return port;
    const auto [found, fresh] = new_ports_.try_emplace({port, round}, 0);
    if (fresh) {
      found->second = static_cast<int>(topology_->ports.size());
      PortInfo copy = before_.ports[port];
      copy.name = UniqueName(copy.name, round, ports_);
      topology_->ports.push_back(std::move(copy));
    }
    return found->second;
  }

  ClusterTopology* const topology_;
  const Way way_;
  const ClusterTopology before_;
  std::set<std::string> ids_, hosts_, ports_;
  std::vector<int> out_, in_;  // ports of each device to other hosts
  std::map<std::pair<std::string, int>, std::string> new_hosts_;
  std::map<std::pair<int, int>, int> new_ports_;
};

absl::Status SetWays(const Changes& changes, ClusterTopology* topology) {
  bool any = false;
  for (LinkInfo& link : topology->links) {
    if (!BetweenHosts(*topology, link)) continue;
    any = true;
    if (changes.latency_s) link.latency_s = *changes.latency_s;
    if (!changes.link) continue;
    link.bandwidth_bytes_per_s = *changes.link;
    for (const int port : {link.out_port, link.in_port})
      if (port >= 0) topology->ports[port].bandwidth_bytes_per_s = *changes.link;
  }
  if (any || topology->devices.size() < 2) return absl::OkStatus();
  return InvalidArgument(
      "what-if: {}: all workers are on one host, and links inside a host stay as they are; add "
      "workers=N, or edit the topology",
      changes.link ? "link" : "latency");
}

}  // namespace

absl::StatusOr<ClusterTopology> ApplyWhatIf(std::string_view text, ClusterTopology topology) {
  PD_ASSIGN_OR_RETURN(const Changes changes, ParseChanges(text));
  const int old = static_cast<int>(topology.devices.size());
  if (old == 0) return InvalidArgument("what-if: the topology has no device");
  if (changes.workers > old) {
    Way way = SlowestWay(topology);
    if (changes.link) way.bandwidth = *changes.link;
    if (way.bandwidth <= 0) {
      return InvalidArgument(
          "what-if: workers: the topology has no link that a new one could be like; add link=25G");
    }
    Copies(&topology, way).AddUpTo(changes.workers);
  } else if (changes.workers > 0) {
    KeepFirst(changes.workers, &topology);
  }
  if (changes.link || changes.latency_s) PD_RETURN_IF_ERROR(SetWays(changes, &topology));
  for (DeviceInfo& device : topology.devices) {
    if (changes.memory_bytes) device.memory_bytes = *changes.memory_bytes;
    if (changes.speed) device.speed *= *changes.speed;
  }
  return topology;
}

}  // namespace pipedream
