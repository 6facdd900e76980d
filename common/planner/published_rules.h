// The cost rules of the literature (planner.md, section 3): equal workers, one bandwidth.
//
// C compute, P parameter bytes, B bandwidth, a the bytes of a cut in one direction, r replicas:
//   code    (C + 4 (r-1)/r P/B) / r      2a / (B r)            r: of the stage behind the cut
//   paper   max(C, 4 (r-1)/r P/B) / r    2a / (B r)            (arXiv 1806.03377, section 3.2)
//   duplex  max(C, 2 (r-1)/r P/B) / r    a / (B min(r, r'))    r': before it
#pragma once

#include <absl/status/statusor.h>

#include <string_view>
#include <vector>

#include "common/planner/cut_lattice.h"
#include "common/planner/segment_search.h"

namespace pipedream {

enum class PublishedRule { kCode, kPaper, kDuplex };

// kInvalidArgument lists the names.
absl::StatusOr<PublishedRule> ParsePublishedRule(std::string_view name);

// Borrows profile and lattice.
class PublishedCosts : public SegmentRule {
 public:
  PublishedCosts(PublishedRule rule, const Profile& profile, const CutLattice& lattice,
                 double bandwidth_bytes_per_s);
  double StageSeconds(const Segment& stage) const override;
  double CutSeconds(int cut, int first, int before, int behind) const override;
  double Bytes(const Segment& stage) const override;
  double Work(int from, int to) const override { return compute_s_[to] - compute_s_[from]; }

  // The largest term of a division.
  double Bottleneck(const std::vector<Segment>& stages) const;

 private:
  const PublishedRule rule_;
  const CutLattice& lattice_;
  const double bandwidth_;
  std::vector<double> compute_s_;  // of all nodes before a cut
  std::vector<double> parameter_bytes_;
};

}  // namespace pipedream
