// Profiles of chains, for tests of the planner.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/planner/planner.h"

namespace pipedream {

struct ChainNode {
  NodeProfile profile;
  int64_t cut = 0;         // bytes to the next node, and as many back
  bool tied_on = false;    // reads a parameter that the next node reads, too
};

inline ChainNode Node(std::string name, double seconds, int64_t parameters, int64_t cut) {
  ChainNode node;
  node.profile.name = std::move(name);
  node.profile.op = "Conv";
  node.profile.forward_s = seconds / 4;
  node.profile.input_gradient_s = seconds / 2;
  node.profile.weight_gradient_s = seconds / 4;
  node.profile.parameter_bytes = parameters;
  node.cut = cut;
  return node;
}

inline Profile ChainProfile(const std::vector<ChainNode>& nodes) {
  Profile profile;
  profile.device_kind = "cpu";
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    profile.nodes.push_back(nodes[n].profile);
    if (n + 1 == static_cast<int>(nodes.size())) break;
    profile.tensors.push_back({{n}, {n + 1}, nodes[n].cut, false, {}, 0});
    profile.tensors.push_back({{n}, {n + 1}, nodes[n].cut, true, {}, 0});
    if (nodes[n].tied_on) profile.ties.push_back({n, n + 1});
  }
  return profile;
}

inline PlanRequest ChainRequest(const std::vector<ChainNode>& nodes, int workers,
                                double bandwidth) {
  PlanRequest request;
  request.profiles = {ChainProfile(nodes)};
  for (int w = 0; w < workers; ++w)
    request.topology.devices.push_back({"w" + std::to_string(w), "cpu", 0, "host"});
  if (workers > 1) request.topology.links.push_back({0, 1, bandwidth, 0, "tcp"});
  return request;
}

}  // namespace pipedream
