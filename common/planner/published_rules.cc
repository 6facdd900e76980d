#include "common/planner/published_rules.h"

#include <algorithm>

#include "common/base/status.h"

namespace pipedream {

absl::StatusOr<PublishedRule> ParsePublishedRule(std::string_view name) {
  if (name == "code") return PublishedRule::kCode;
  if (name == "paper") return PublishedRule::kPaper;
  if (name == "duplex") return PublishedRule::kDuplex;
  return InvalidArgument("rule: '{}' is not known; use measured, code, paper or duplex", name);
}

PublishedCosts::PublishedCosts(PublishedRule rule, const Profile& profile,
                               const CutLattice& lattice, double bandwidth_bytes_per_s)
    : rule_(rule), lattice_(lattice), bandwidth_(bandwidth_bytes_per_s) {
  for (int cut = 0; cut < lattice.size(); ++cut) {
    double compute = 0, parameters = 0;
    for (const int node : lattice.NodesBetween(0, cut)) {
      compute += profile.nodes[node].compute_s();
      parameters += static_cast<double>(profile.nodes[node].parameter_bytes);
    }
    compute_s_.push_back(compute);
    parameter_bytes_.push_back(parameters);
  }
}

double PublishedCosts::StageSeconds(const Segment& stage) const {
  const double r = stage.replicas;
  const double compute = Work(stage.from, stage.to);
  const double parameters = parameter_bytes_[stage.to] - parameter_bytes_[stage.from];
  const double factor = rule_ == PublishedRule::kDuplex ? 2 : 4;
  const double sync = stage.replicas == 1 ? 0 : factor * (r - 1) / r * parameters / bandwidth_;
  return (rule_ == PublishedRule::kCode ? compute + sync : std::max(compute, sync)) / r;
}

double PublishedCosts::CutSeconds(int cut, int, int before, int behind) const {
  if (rule_ != PublishedRule::kDuplex)
    return static_cast<double>(lattice_.bytes(cut)) / (bandwidth_ * behind);
  const auto one_way =
      static_cast<double>(std::max(lattice_.forward_bytes(cut), lattice_.gradient_bytes(cut)));
  return one_way / (bandwidth_ * std::min(before, behind));
}

double PublishedCosts::Bytes(const Segment& stage) const {
  const double r = stage.replicas;
  const double parameters = parameter_bytes_[stage.to] - parameter_bytes_[stage.from];
  return static_cast<double>(lattice_.bytes(stage.from)) + 2 * (r - 1) / r * parameters;
}

double PublishedCosts::Bottleneck(const std::vector<Segment>& stages) const {
  double largest = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    largest = std::max(largest, StageSeconds(stages[s]));
    if (s > 0)
      largest = std::max(largest, CutSeconds(stages[s].from, stages[s].first,
                                             stages[s - 1].replicas, stages[s].replicas));
  }
  return largest;
}

}  // namespace pipedream
