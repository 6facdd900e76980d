#include "common/plan/topology_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/yaml/yaml_reader.h"

namespace pipedream {
namespace {

struct Level {
  int count = 0;
  double bandwidth = 0;
  double latency_s = 0;
  bool shared = false;
};

class TopologyReader {
 public:
  explicit TopologyReader(std::string_view file) : faults_(file) {}

  absl::StatusOr<ClusterTopology> Read(const YAML::Node& root) {
    YamlMap map(root, "", &faults_);
    const YAML::Node levels = map.Take("levels"), device = map.Take("device");
    const YAML::Node devices = map.Take("devices"), ports = map.Take("ports");
    const YAML::Node links = map.Take("links");
    map.Finish();
    if (!faults_.status().ok()) return faults_.status();
    if (levels.IsDefined() == devices.IsDefined()) {
      Fault(root, "",
            levels.IsDefined()
                ? "levels and devices exclude one another: equal devices are said by levels, "
                  "unlike ones by devices and links"
                : "expected levels and device, or devices and links");
    } else if (levels.IsDefined()) {
      if (ports.IsDefined() || links.IsDefined()) {
        Fault(ports.IsDefined() ? ports : links, ports.IsDefined() ? "ports" : "links",
              "levels say them already; list devices to say them yourself");
      }
      ReadLevels(levels, device);
    } else {
      if (device.IsDefined())
        Fault(device, "device", "is for levels; here every device is listed below devices");
      ReadDevices(devices);
      ReadPorts(ports);
      ReadLinks(links);
    }
    if (!faults_.status().ok()) return faults_.status();
    return std::move(topology_);
  }

 private:
  void Fault(const YAML::Node& at, const std::string& path, const std::string& message) {
    faults_.Add(at, path, message);
  }
  bool ok() const { return faults_.status().ok(); }

  // False, with a fault, if the node is no list.
  bool IsList(const YAML::Node& node, const std::string& path) {
    if (!node.IsDefined() || node.IsSequence()) return node.IsDefined();
    Fault(node, path, "must be a list");
    return false;
  }

  void CheckAmount(const YAML::Node& at, const std::string& path, double value, bool positive) {
    if (std::isfinite(value) && (positive ? value > 0 : value >= 0)) return;
    Fault(at, path,
          fmt::format("is {}, expected a number {}", value,
                      positive ? "greater than 0" : "that is not negative"));
  }

  void ReadDeviceFields(YamlMap* map, const YAML::Node& at, DeviceInfo* device) {
    device->kind = kAnyDeviceKind;
    map->Read("kind", &device->kind);
    map->ReadBytes("memory_bytes", &device->memory_bytes);
    map->Read("speed", &device->speed);
    map->Finish();  // a misspelt key is the better hint
    CheckAmount(at, map->Path("memory_bytes"), static_cast<double>(device->memory_bytes), false);
    CheckAmount(at, map->Path("speed"), device->speed, true);
  }

  void ReadWay(YamlMap* map, double* bandwidth, double* latency_s) {
    map->ReadBytes("bandwidth_bytes_per_s", bandwidth);
    map->ReadSeconds("latency_s", latency_s);
  }
  void CheckWay(YamlMap* map, const YAML::Node& at, const double* bandwidth,
                const double* latency_s) {
    CheckAmount(at, map->Path("bandwidth_bytes_per_s"), *bandwidth, true);
    CheckAmount(at, map->Path("latency_s"), *latency_s, false);
  }

  void ReadLevels(const YAML::Node& list, const YAML::Node& device) {
    if (!IsList(list, "levels")) return;
    DeviceInfo common;
    common.kind = kAnyDeviceKind;
    if (device.IsDefined()) {
      YamlMap map(device, "device", &faults_);
      ReadDeviceFields(&map, device, &common);
    }
    std::vector<Level> levels;
    int64_t total = 1;
    for (const YAML::Node& item : list) {
      Level level;
      YamlMap map(item, fmt::format("levels[{}]", levels.size()), &faults_);
      map.Read("count", &level.count);
      ReadWay(&map, &level.bandwidth, &level.latency_s);
      map.Read("shared", &level.shared);
      map.Finish();
      // One alone has no links.
      if (level.count > 1) CheckWay(&map, item, &level.bandwidth, &level.latency_s);
      if (ok() && level.count < 1)
        Fault(item, map.Path("count"), fmt::format("is {}, expected at least 1", level.count));
      if (!ok()) return;
      total *= level.count;
      if (total > kMaxTopologyDevices) {
        return Fault(
            item, map.Path("count"),
            fmt::format("comes to {} devices, expected at most {}", total, kMaxTopologyDevices));
      }
      levels.push_back(level);
    }
    if (levels.empty()) return Fault(list, "levels", "expected at least one level");
    BuildLevels(levels, common);
  }

  void BuildLevels(const std::vector<Level>& levels, const DeviceInfo& common) {
    int total = 1;
    std::vector<int> below;  // devices in a group of the level below
    for (const Level& level : levels) {
      below.push_back(total);
      total *= level.count;
    }
    for (int i = 0; i < total; ++i) {
      DeviceInfo device = common;
      device.worker_id = fmt::format("worker-{}", i);
      device.host_id = fmt::format("host-{}", levels.size() == 1 ? i : i / levels[0].count);
      topology_.devices.push_back(std::move(device));
    }
    // port_of[k][i]: of device i for links of level k.
    std::vector<std::vector<int>> port_of(levels.size(), std::vector<int>(total, -1));
    for (size_t k = 0; k < levels.size(); ++k) {
      if (levels[k].count == 1) continue;
      const int sharing = levels[k].shared ? below[k] : 1;
      for (int i = 0; i < total; ++i) {
        if (i % sharing == 0)
          topology_.ports.push_back({PortName(k, i, sharing, levels), levels[k].bandwidth});
        port_of[k][i] = static_cast<int>(topology_.ports.size()) - 1;
      }
    }
    for (int i = 0; i < total; ++i) {
      for (int j = 0; j < total; ++j) {
        if (i == j) continue;
        size_t k = 0;
        while (i / (below[k] * levels[k].count) != j / (below[k] * levels[k].count)) ++k;
        topology_.links.push_back(
            {i, j, levels[k].bandwidth, levels[k].latency_s, "", port_of[k][i], port_of[k][j]});
      }
    }
  }

  // "worker-3" or "host-1"; of levels above that, or where several levels have the same name,
  // with the level.
  static std::string PortName(size_t level, int device, int sharing,
                              const std::vector<Level>& levels) {
    if (sharing == 1) {
      return level == 0 ? fmt::format("worker-{}", device)
                        : fmt::format("worker-{}.level-{}", device, level);
    }
    return sharing == levels[0].count && level == 1
               ? fmt::format("host-{}", device / sharing)
               : fmt::format("group-{}.level-{}", device / sharing, level);
  }

  void ReadDevices(const YAML::Node& list) {
    if (!IsList(list, "devices")) return;
    for (const YAML::Node& item : list) {
      const size_t index = topology_.devices.size();
      DeviceInfo device;
      YamlMap map(item, fmt::format("devices[{}]", index), &faults_);
      device.worker_id = fmt::format("worker-{}", index);
      map.Read("name", &device.worker_id);
      device.host_id = device.worker_id;
      map.Read("host", &device.host_id);
      ReadDeviceFields(&map, item, &device);
      if (ok() && !device_of_.emplace(device.worker_id, static_cast<int>(index)).second)
        Fault(item, map.Path("name"), fmt::format("there are two devices '{}'", device.worker_id));
      if (ok() && index >= static_cast<size_t>(kMaxTopologyDevices)) {
        Fault(item, "devices", fmt::format("expected at most {} devices", kMaxTopologyDevices));
      }
      if (!ok()) return;
      topology_.devices.push_back(std::move(device));
    }
    if (topology_.devices.empty()) Fault(list, "devices", "expected at least one device");
  }

  void ReadPorts(const YAML::Node& list) {
    if (!ok() || !IsList(list, "ports")) return;
    for (const YAML::Node& item : list) {
      const size_t index = topology_.ports.size();
      PortInfo port;
      YamlMap map(item, fmt::format("ports[{}]", index), &faults_);
      map.Read("name", &port.name);
      map.ReadBytes("bandwidth_bytes_per_s", &port.bandwidth_bytes_per_s);
      map.Finish();
      CheckAmount(item, map.Path("bandwidth_bytes_per_s"), port.bandwidth_bytes_per_s, true);
      if (ok() && (port.name.empty() || !port_of_.emplace(port.name, index).second)) {
        Fault(item, map.Path("name"),
              port.name.empty() ? "expected a name"
                                : fmt::format("there are two ports '{}'", port.name));
      }
      if (!ok()) return;
      topology_.ports.push_back(std::move(port));
    }
  }

  int Find(YamlMap* map, const YAML::Node& at, const char* key,
           const std::map<std::string, int>& known, std::string_view what, bool required) {
    std::string name;
    map->Read(key, &name);
    if (name.empty() && !required) return -1;
    const auto found = known.find(name);
    if (found != known.end()) return found->second;
    if (ok()) {
      Fault(at, map->Path(key),
            name.empty() ? fmt::format("expected the name of a {}", what)
                         : fmt::format("there is no {} '{}'", what, name));
    }
    return -1;
  }

  void ReadLinks(const YAML::Node& list) {
    if (!ok() || !IsList(list, "links")) return;
    std::set<std::pair<int, int>> listed;
    std::vector<std::pair<LinkInfo, bool>> links;
    for (const YAML::Node& item : list) {
      LinkInfo link;
      bool one_way = false;
      YamlMap map(item, fmt::format("links[{}]", links.size()), &faults_);
      link.from = Find(&map, item, "from", device_of_, "device", true);
      link.to = Find(&map, item, "to", device_of_, "device", true);
      ReadWay(&map, &link.bandwidth_bytes_per_s, &link.latency_s);
      map.Read("transport", &link.transport);
      link.out_port = Find(&map, item, "out_port", port_of_, "port", false);
      link.in_port = Find(&map, item, "in_port", port_of_, "port", false);
      map.Read("one_way", &one_way);
      map.Finish();
      CheckWay(&map, item, &link.bandwidth_bytes_per_s, &link.latency_s);
      if (ok() && link.from == link.to)
        Fault(item, map.Path("to"), "a device has no link to itself");
      if (ok() && !listed.emplace(link.from, link.to).second)
        Fault(item, map.Path("to"), "this link is listed twice");
      if (!ok()) return;
      links.emplace_back(std::move(link), one_way);
    }
    for (auto& [link, one_way] : links) {
      const bool back = !one_way && !listed.contains({link.to, link.from});
      topology_.links.push_back(link);
      if (!back) continue;
      std::swap(link.from, link.to);
      std::swap(link.out_port, link.in_port);
      topology_.links.push_back(std::move(link));
    }
  }

  YamlFaults faults_;
  ClusterTopology topology_;
  std::map<std::string, int> device_of_, port_of_;
};

// As a double-quoted scalar of YAML and JSON.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", c);
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace

absl::StatusOr<ClusterTopology> ParseTopology(std::string_view text, std::string_view file_name) {
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) {
      return InvalidArgument("{}: expected a cluster: levels and device, or devices and links",
                             file_name);
    }
    return TopologyReader(file_name).Read(root);
  } catch (const YAML::Exception& e) {
    return InvalidArgument("{}:{}: not valid YAML: {}", file_name, e.mark.line + 1, e.msg);
  }
}

std::string FormatTopology(const ClusterTopology& topology) {
  std::string out = "devices:\n";
  for (const DeviceInfo& device : topology.devices) {
    out += fmt::format("  - {{name: {}, kind: {}, memory_bytes: {}, speed: {}, host: {}}}\n",
                       Quoted(device.worker_id), Quoted(device.kind), device.memory_bytes,
                       device.speed, Quoted(device.host_id));
  }
  if (!topology.ports.empty()) out += "ports:\n";
  for (const PortInfo& port : topology.ports) {
    out += fmt::format("  - {{name: {}, bandwidth_bytes_per_s: {}}}\n", Quoted(port.name),
                       port.bandwidth_bytes_per_s);
  }
  std::set<std::pair<int, int>> listed;
  for (const LinkInfo& link : topology.links) listed.emplace(link.from, link.to);
  if (!topology.links.empty()) out += "links:\n";
  for (const LinkInfo& link : topology.links) {
    out += fmt::format("  - {{from: {}, to: {}, bandwidth_bytes_per_s: {}, latency_s: {}",
                       Quoted(topology.devices[link.from].worker_id),
                       Quoted(topology.devices[link.to].worker_id), link.bandwidth_bytes_per_s,
                       link.latency_s);
    if (!link.transport.empty()) out += fmt::format(", transport: {}", Quoted(link.transport));
    if (link.out_port >= 0)
      out += fmt::format(", out_port: {}", Quoted(topology.ports[link.out_port].name));
    if (link.in_port >= 0)
      out += fmt::format(", in_port: {}", Quoted(topology.ports[link.in_port].name));
    if (!listed.contains({link.to, link.from})) out += ", one_way: true";
    out += "}\n";
  }
  return out;
}

}  // namespace pipedream
