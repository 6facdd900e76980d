#include "common/planner/reasons.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/units.h"

namespace pipedream {
namespace {

enum class BoundBy { kCompute, kSync, kReceive };

struct Bound {
  int stage = 0;
  BoundBy by = BoundBy::kCompute;
  double seconds = 0;  // per microbatch
  double longest_compute_s = 0;
};

Bound FindBound(const CandidateSource& source, const Candidate& candidate) {
  const CostModel costs = source.Costs(static_cast<int>(candidate.partition.size()));
  Bound bound;
  for (size_t s = 0; s < candidate.partition.size(); ++s) {
    const StagePart& part = candidate.partition[s];
    const StageTimes times = costs.Times(costs.Sums(part), part, candidate.bandwidth);
    bound.longest_compute_s = std::max(bound.longest_compute_s, times.compute_s);
    for (const auto& [by, seconds] : {std::pair{BoundBy::kCompute, times.compute_s},
                                      {BoundBy::kSync, times.sync_s},
                                      {BoundBy::kReceive, times.receive_s}}) {
      if (seconds > bound.seconds) {
        bound.stage = static_cast<int>(s);
        bound.by = by;
        bound.seconds = seconds;
      }
    }
  }
  return bound;
}

std::string NodesOf(const CandidateSource& source, const StagePart& part) {
  const std::vector<NodeProfile>& nodes = source.profile().nodes;
  if (part.end - part.begin == 1) return nodes[part.begin].name;
  return fmt::format("{} .. {}", nodes[part.begin].name, nodes[part.end - 1].name);
}

std::string Describe(const CandidateSource& source, const Candidate& candidate,
                     const Bound& bound) {
  const StagePart& part = candidate.partition[bound.stage];
  const CostModel costs = source.Costs(static_cast<int>(candidate.partition.size()));
  switch (bound.by) {
    case BoundBy::kCompute:
      return fmt::format("the compute of stage {}", bound.stage);
    case BoundBy::kSync:
      return fmt::format("the all-reduce of stage {}'s {} of parameters", bound.stage,
                         FormatBytes(costs.Sums(part).parameter_bytes));
    case BoundBy::kReceive:
      return fmt::format("the {} per microbatch between stages {} and {}",
                         FormatBytes(costs.CutBytes(part.begin)), bound.stage - 1, bound.stage);
  }
  return "";
}

// Names the node that is most of the stage that everyone waits for.
std::string Unbalanced(const CandidateSource& source, const Candidate& chosen, const Bound& bound) {
  if (chosen.workers < 2 || bound.by != BoundBy::kCompute) return "";
  const std::vector<NodeProfile>& nodes = source.profile().nodes;
  const StagePart& part = chosen.partition[bound.stage];
  if (part.replicas > 1) return "";
  double total = 0;
  for (const NodeProfile& node : nodes) total += node.compute_s();
  int largest = part.begin;
  for (int n = part.begin; n < part.end; ++n)
    if (nodes[n].compute_s() > nodes[largest].compute_s()) largest = n;
  const double alone = nodes[largest].compute_s();
  if (alone < 1.2 * total / chosen.workers || alone < 0.5 * bound.seconds) return "";
  return fmt::format(
      "node {} ({}) alone takes {} of {} per microbatch; no cut divides it, so stage {} sets the "
      "pace",
      nodes[largest].name, nodes[largest].op, FormatSeconds(alone), FormatSeconds(total),
      bound.stage);
}

}  // namespace

std::string Bottleneck(const CandidateSource& source, const Candidate& candidate) {
  return Describe(source, candidate, FindBound(source, candidate));
}

std::string MemoryLack(const CandidateSource& source, const Candidate& candidate) {
  if (!candidate.device_of.empty()) {
    return fmt::format("device {} needs {}, a worker has {}",
                       candidate.device_of[candidate.fullest_stage],
                       FormatBytes(candidate.needed_bytes), FormatBytes(candidate.available_bytes));
  }
  return fmt::format("stage {} ({}) needs {}, a worker has {}", candidate.fullest_stage,
                     NodesOf(source, candidate.partition[candidate.fullest_stage]),
                     FormatBytes(candidate.needed_bytes), FormatBytes(candidate.available_bytes));
}

std::string WhyNot(const CandidateSource& source, const Candidate& other, const Candidate& chosen) {
  if (other.partition == chosen.partition) return "chosen";
  if (!other.refused.ok()) return std::string(other.refused.message());
  if (!other.fits()) return "does not fit in memory: " + MemoryLack(source, other);
  const double ratio = other.step_s / chosen.step_s;
  if (ratio > 1.0005) {
    return fmt::format("{:.3g} times slower: bound by {}", ratio, Bottleneck(source, other));
  }
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
  return fmt::format("as fast, but uses {} workers in {} stages", other.workers,
                     other.partition.size());
}

std::vector<std::string> Warnings(const CandidateSource& source, const Candidate& chosen) {
  std::vector<std::string> out;
  const Bound bound = FindBound(source, chosen);
  if (bound.by != BoundBy::kCompute) {
    const double wanted = chosen.bandwidth * bound.seconds / bound.longest_compute_s;
    out.push_back(fmt::format(
        "bound by the network ({}): {} per microbatch, the longest compute {}; {:.3g} Gbit/s "
        "instead "
        "of {:.3g} would hide it",
        Describe(source, chosen, bound), FormatSeconds(bound.seconds),
        FormatSeconds(bound.longest_compute_s), wanted * 8 / 1e9, chosen.bandwidth * 8 / 1e9));
  }
  if (std::string unbalanced = Unbalanced(source, chosen, bound); !unbalanced.empty())
    out.push_back(std::move(unbalanced));
  if (chosen.workers < source.workers()) {
    out.push_back(fmt::format("{} of {} workers stay idle: no plan with more of them is faster",
                              source.workers() - chosen.workers, source.workers()));
  }
  return out;
}

}  // namespace pipedream
