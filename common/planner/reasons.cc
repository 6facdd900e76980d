#include "common/planner/reasons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/units.h"

namespace pipedream {
namespace {

std::string Described(const LayoutCosts& costs, const Candidate& candidate, const Load& load) {
  const std::vector<int>& cuts = candidate.layout.cuts;
  switch (load.kind) {
    case Load::Kind::kCompute:
      return fmt::format("the compute of stage {}", load.stage);
    case Load::Kind::kSync:
      return fmt::format(
          "the all-reduce of stage {}'s {} of parameters", load.stage,
          FormatBytes(costs.ParameterBytes(cuts[load.stage], cuts[load.stage + 1])));
    case Load::Kind::kTransfer:
      return fmt::format("the {} per microbatch between stages {} and {}",
                         FormatBytes(costs.lattice().bytes(cuts[load.stage])), load.stage - 1,
                         load.stage);
  }
  return "";
}

// Names the node that is most of the stage that everyone waits for.
std::string Unbalanced(const LayoutCosts& costs, const Candidate& chosen, const Load& load) {
  const Layout& layout = chosen.layout;
  if (layout.workers() < 2 || load.kind != Load::Kind::kCompute) return "";
  if (layout.replicas(load.stage) > 1) return "";
  const std::vector<NodeProfile>& nodes = costs.profile().nodes;
  double total = 0, stage = 0;
  for (const NodeProfile& node : nodes) total += node.compute_s();
  int largest = -1;
  for (const int n :
       costs.lattice().NodesBetween(layout.cuts[load.stage], layout.cuts[load.stage + 1])) {
    stage += nodes[n].compute_s();
    if (largest < 0 || nodes[n].compute_s() > nodes[largest].compute_s()) largest = n;
  }
  const double alone = nodes[largest].compute_s();
  if (alone < 1.2 * total / layout.workers() || alone < 0.5 * stage) return "";
  return fmt::format(
      "node {} ({}) alone takes {} of {} per microbatch; no cut divides it, so stage {} sets the "
      "pace",
      nodes[largest].name, nodes[largest].op, FormatSeconds(alone), FormatSeconds(total),
      load.stage);
}

// The slowest way that a stage's messages take.
double SlowestWay(const LayoutCosts& costs, const Layout& layout, const Load& load) {
  std::vector<int> devices = layout.on(load.stage);
  if (load.kind == Load::Kind::kTransfer) {
    const std::vector<int>& before = layout.on(load.stage - 1);
    devices.insert(devices.end(), before.begin(), before.end());
  }
  return costs.cluster().SlowestBandwidth(devices);
}

}  // namespace

std::string NodesOf(const Profile& profile, const std::vector<int>& nodes) {
  if (nodes.size() == 1) return profile.nodes[nodes[0]].name;
  return fmt::format("{} .. {}", profile.nodes[nodes.front()].name,
                     profile.nodes[nodes.back()].name);
}

std::string BoundBy(const LayoutCosts& costs, const Candidate& candidate) {
  return Described(costs, candidate, costs.Bottleneck(candidate.layout, candidate.recompute));
}

std::string MemoryLack(const LayoutCosts& costs, const Candidate& candidate) {
  const Layout& layout = candidate.layout;
  const int s = candidate.fullest_stage;
  const std::string what =
      layout.group_of.empty()
          ? fmt::format("stage {} ({})", s,
                        NodesOf(costs.profile(), costs.lattice().NodesBetween(layout.cuts[s],
                                                                              layout.cuts[s + 1])))
          : fmt::format("device {}", layout.group(s));
  return fmt::format("{} needs {}, a worker has {}", what, FormatBytes(candidate.needed_bytes),
                     FormatBytes(candidate.available_bytes));
}

std::string WhyNot(const LayoutCosts& costs, const Candidate& other, const Candidate& chosen) {
  if (other.layout == chosen.layout) return "chosen";
  if (!other.refused.ok()) return std::string(other.refused.message());
  if (!other.fits()) return "does not fit in memory: " + MemoryLack(costs, other);
  const double ratio = other.step_s / chosen.step_s;
  if (ratio > 1.0005)
    return fmt::format("{:.3g} times slower: bound by {}", ratio, BoundBy(costs, other));
  if (ratio < 0.9995) return fmt::format("{:.3g} times faster", 1 / ratio);
  if (other.bytes > chosen.bytes) {
    return fmt::format("as fast, but moves {} per minibatch, not {}",
                       FormatBytes(static_cast<int64_t>(other.bytes)),
                       FormatBytes(static_cast<int64_t>(chosen.bytes)));
  }
  if (other.needed_bytes > chosen.needed_bytes) {
    return fmt::format("as fast, but needs {} of memory, not {}", FormatBytes(other.needed_bytes),
                       FormatBytes(chosen.needed_bytes));
  }
  return fmt::format("as fast, but uses {} workers in {} stages", other.layout.workers(),
                     other.layout.stages());
}

std::vector<std::string> Warnings(const LayoutCosts& costs, const Candidate& chosen) {
  std::vector<std::string> out;
  const Layout& layout = chosen.layout;
  const Load load = costs.Bottleneck(layout, chosen.recompute);
  if (load.kind != Load::Kind::kCompute && load.longest_compute_s > 0) {
    const double now = SlowestWay(costs, layout, load);
    out.push_back(fmt::format(
        "bound by the network ({}): {} per minibatch, the longest compute {}; {:.3g} Gbit/s "
        "instead of {:.3g} would hide it",
        Described(costs, chosen, load), FormatSeconds(load.seconds),
        FormatSeconds(load.longest_compute_s), now * load.seconds / load.longest_compute_s * 8 / 1e9,
        now * 8 / 1e9));
  }
  if (std::string unbalanced = Unbalanced(costs, chosen, load); !unbalanced.empty())
    out.push_back(std::move(unbalanced));
  std::vector<int> again;
  for (int s = 0; s < layout.stages(); ++s)
    if (chosen.recompute[s] && !costs.request().recompute) again.push_back(s);
  if (!again.empty()) {
    out.push_back(fmt::format(
        "to fit in memory, stage {} computes its forward pass again in the backward pass",
        fmt::join(again, ", ")));
  }
  const int idle = costs.cluster().size() - layout.workers();
  if (idle > 0) {
    out.push_back(fmt::format("{} of {} workers stay idle: no plan with more of them is faster",
                              idle, costs.cluster().size()));
  }
  return out;
}

}  // namespace pipedream
