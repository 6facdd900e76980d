// The places where a model can be cut: sets of nodes that hold, with a node, all that it reads from
// (planner.md calls them downward-closed). A stage is what lies between two of them.
#pragma once

#include <cstdint>
#include <vector>

#include "common/plan/profile.h"
#include "common/planner/node_set.h"

namespace pipedream {

struct LatticeOptions {
  // Cuts may part nodes that read one parameter.
  bool part_ties = false;
  // A stage must hold a node with parameters or with more than this share of the compute time; other
  // nodes are free: they go where least crosses the cuts.
  double negligible_share = 0;
  // Beyond so many cuts only a choice is kept: the cheapest, and enough others that any share of the
  // work can be had.
  int most_cuts = 1500;
};

class CutLattice {
 public:
  CutLattice(const Profile& profile, const LatticeOptions& options);
  // The cuts of one division only. REQUIRES: every node is in one stage, and reads from that and
  // earlier ones.
  CutLattice(const Profile& profile, const std::vector<std::vector<int>>& stages);

  // Ascending in work: a cut inside another has the smaller number. 0 is before all nodes,
  // size() - 1 behind them.
  int size() const { return static_cast<int>(cuts_.size()); }
  int last() const { return size() - 1; }
  // Whether every set of nodes that are not free is here (with the free nodes that suit it best).
  bool complete() const { return complete_; }
  // The most stages that cuts of this lattice can make.
  int most_stages() const { return most_stages_; }

  // Cuts that hold all of `cut` and more, ascending.
  const std::vector<int>& Behind(int cut) const { return behind_[cut]; }
  bool IsBefore(int cut, int other) const { return before_[cut].Contains(other); }
  bool Holds(int cut, int node) const { return cuts_[cut].Contains(node); }
  // Ascending.
  std::vector<int> NodesBetween(int from, int to) const;
  // Of all tensors that the cut parts, per microbatch: forward, and back.
  int64_t forward_bytes(int cut) const { return forward_bytes_[cut]; }
  int64_t gradient_bytes(int cut) const { return gradient_bytes_[cut]; }
  int64_t bytes(int cut) const { return forward_bytes_[cut] + gradient_bytes_[cut]; }
  int nodes() const { return nodes_; }

 private:
  friend class LatticeBuilder;
  void CountBytes(const Profile& profile);
  int nodes_ = 0;
  bool complete_ = true;
  int most_stages_ = 1;
  std::vector<NodeSet> cuts_;
  std::vector<NodeSet> before_;  // by cut: the cuts behind it
  std::vector<std::vector<int>> behind_;
  std::vector<int64_t> forward_bytes_;
  std::vector<int64_t> gradient_bytes_;
};

// By node: what must be before a cut if the node is: what it reads from, directly, and, unless they
// may be parted, the nodes that it is tied to.
std::vector<std::vector<int>> Predecessors(const Profile& profile, bool part_ties);

}  // namespace pipedream
