#include "common/planner/cut_lattice.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>

#include "common/planner/least_cut.h"

namespace pipedream {
namespace {

// Prices of a second of work in bytes that are tried for the cheapest cuts of a wide graph.
constexpr int kPrices = 24;
// About so many cuts are chosen there.
constexpr int kChosenCuts = 300;

}  // namespace

std::vector<std::vector<int>> Predecessors(const Profile& profile, bool part_ties) {
  std::vector<std::vector<int>> out(profile.nodes.size());
  for (const ProfileTensor& tensor : profile.tensors) {
    if (tensor.gradient) continue;
    for (const int maker : tensor.early)
      for (const int reader : tensor.late) out[reader].push_back(maker);
  }
  for (const std::vector<int>& tie : profile.ties) {
    if (part_ties || tie.size() < 2) continue;
    for (size_t i = 0; i < tie.size(); ++i) out[tie[i]].push_back(tie[(i + 1) % tie.size()]);
  }
  for (std::vector<int>& before : out) {
    std::ranges::sort(before);
    before.erase(std::unique(before.begin(), before.end()), before.end());
  }
  return out;
}

// A cut is first known by the least set that has its heavy nodes (those that are not free); the
// free nodes that suit it are added at the end. With the smallest of the cheapest choices, cuts
// inside one another stay so: what crosses is a submodular function of the set.
class LatticeBuilder {
 public:
  LatticeBuilder(const Profile& profile, const LatticeOptions& options)
      : profile_(profile),
        options_(options),
        count_(static_cast<int>(profile.nodes.size())),
        predecessors_(Predecessors(profile, options.part_ties)),
        heavy_(count_),
        closures_(count_, NodeSet(count_)) {
    FindClosures();
    FindHeavy();
  }

  void Build(CutLattice* out) {
    out->nodes_ = count_;
    const NodeSet none(count_);
    const NodeSet all = All();
    std::vector<NodeSet> sets;
    out->complete_ = Enumerate(none, all, options_.most_cuts, &sets);
    if (!out->complete_) sets = Choice(none, all);
    sets.push_back(none);
    sets.push_back(all);
    // All heavy nodes: whatever is free behind them is in.
    for (NodeSet& set : sets)
      if (HeavyOf(set) == HeavyOf(all)) set = all;
    Order(&sets);
    for (NodeSet& set : sets) out->cuts_.push_back(set == none || set == all ? set : Suited(set));
    Relate(sets, out);
    out->CountBytes(profile_);
  }

 private:
  void FindClosures() {
    std::vector<int> stack;
    for (int node = 0; node < count_; ++node) {
      NodeSet& closure = closures_[node];
      stack = {node};
      closure.Insert(node);
      while (!stack.empty()) {
        const int at = stack.back();
        stack.pop_back();
        for (const int before : predecessors_[at]) {
          if (closure.Contains(before)) continue;
          closure.Insert(before);
          stack.push_back(before);
        }
      }
    }
  }

  void FindHeavy() {
    double total = 0;
    for (const NodeProfile& node : profile_.nodes) total += node.compute_s();
    for (int n = 0; n < count_; ++n) {
      const NodeProfile& node = profile_.nodes[n];
      if (node.parameter_bytes == 0 && node.compute_s() <= options_.negligible_share * total)
        continue;
      heavy_.Insert(n);
      heavy_nodes_.push_back(n);
    }
    together_.assign(count_, 1);
    if (options_.part_ties || profile_.ties.empty()) return;
    for (const int node : heavy_nodes_) {
      together_[node] = 0;
      for (const int other : heavy_nodes_)
        together_[node] += closures_[node].Contains(other) && closures_[other].Contains(node);
    }
  }

  NodeSet All() const {
    NodeSet all(count_);
    for (int n = 0; n < count_; ++n) all.Insert(n);
    return all;
  }

  NodeSet HeavyOf(NodeSet set) const {
    set &= heavy_;
    return set;
  }

  // The least closed set with the heavy nodes of `set`.
  NodeSet Least(const NodeSet& set) const {
    NodeSet out(count_);
    for (const int node : heavy_nodes_)
      if (set.Contains(node)) out |= closures_[node];
    return out;
  }

  // All least sets between two of them; false, and incomplete, if there are more than `most`.
  bool Enumerate(const NodeSet& from, const NodeSet& to, int most, std::vector<NodeSet>* out) const {
    absl::flat_hash_set<NodeSet> seen = {from};
    std::deque<NodeSet> open = {from};
    while (!open.empty()) {
      const NodeSet set = std::move(open.front());
      open.pop_front();
      for (const int node : heavy_nodes_) {
        if (set.Contains(node) || !to.Contains(node)) continue;
        NodeSet next = set;
        next |= closures_[node];
        // One step at a time: what else comes with the node must be tied to it.
        if (!OneStep(set, next, node)) continue;
        if (!seen.insert(next).second) continue;
        if (static_cast<int>(seen.size()) > most) return false;
        open.push_back(next);
        out->push_back(std::move(next));
      }
    }
    return true;
  }

  bool OneStep(const NodeSet& set, const NodeSet& next, int node) const {
    return HeavyOf(next).Count() - HeavyOf(set).Count() == together_[node];
  }

  // Where not all sets can be had.
  std::vector<NodeSet> Choice(const NodeSet& none, const NodeSet& all) const {
    std::vector<NodeSet> chain = CheapChain(none, all);
    const int share =
        std::max(8, kChosenCuts / static_cast<int>(std::max<size_t>(chain.size(), 1)));
    std::vector<NodeSet> out(chain.begin() + 1, chain.end());
    for (size_t k = 0; k + 1 < chain.size(); ++k) {
      std::vector<NodeSet> between;
      if (!Enumerate(chain[k], chain[k + 1], share, &between)) {
        between.clear();
        NodeSet set = chain[k];  // in graph order
        for (const int node : heavy_nodes_) {
          if (set.Contains(node) || !chain[k + 1].Contains(node)) continue;
          set |= closures_[node];
          between.push_back(set);
        }
      }
      out.insert(out.end(), between.begin(), between.end());
    }
    return out;
  }

  // Cuts inside one another, the cheapest for what they hold: those that are best at some price.
  std::vector<NodeSet> CheapChain(const NodeSet& none, const NodeSet& all) const {
    std::vector<NodeSet> chain = {none, Least(all)};
    double total = 0, most = 1;
    for (const NodeProfile& node : profile_.nodes) total += node.compute_s();
    for (const ProfileTensor& tensor : profile_.tensors) most += static_cast<double>(tensor.bytes);
    if (total <= 0) return chain;
    for (int k = 0; k < kPrices; ++k) {
      const double price = most / total * std::pow(10.0, 2 - 6.0 * k / kPrices);
      LeastCut problem(count_);
      for (int n = 0; n < count_; ++n) {
        problem.Earns(n, std::llround(price * profile_.nodes[n].compute_s()));
        for (const int before : predecessors_[n]) problem.Implies(n, before);
      }
      for (const ProfileTensor& tensor : profile_.tensors)
        problem.Crosses(tensor.early, tensor.late, tensor.bytes);
      const std::vector<bool> in = problem.Solve();
      NodeSet set(count_);
      for (int n = 0; n < count_; ++n)
        if (in[n]) set.Insert(n);
      chain.push_back(Least(set));
    }
    Order(&chain);
    // Rounding may break the order of two that are nearly alike.
    std::vector<NodeSet> out;
    for (NodeSet& set : chain)
      if (out.empty() || out.back().IsSubsetOf(set)) out.push_back(std::move(set));
    if (out.back() != Least(all)) out.push_back(Least(all));
    return out;
  }

  void Order(std::vector<NodeSet>* sets) const {
    std::vector<std::tuple<int, double, NodeSet>> keyed;
    for (NodeSet& set : *sets) {
      double work = 0;
      for (const int node : heavy_nodes_)
        if (set.Contains(node)) work += profile_.nodes[node].compute_s();
      keyed.emplace_back(HeavyOf(set).Count(), work, std::move(set));
    }
    std::ranges::sort(keyed);
    sets->clear();
    for (auto& [size, work, set] : keyed)
      if (sets->empty() || sets->back() != set) sets->push_back(std::move(set));
  }

  // With those free nodes with which least crosses the cut.
  NodeSet Suited(const NodeSet& least) const {
    std::vector<int> number(count_, -1);  // of the free nodes that may be in
    std::vector<int> free_nodes;
    for (int n = 0; n < count_; ++n) {
      if (least.Contains(n) || heavy_.Contains(n)) continue;
      if (!HeavyOf(closures_[n]).IsSubsetOf(least)) continue;
      number[n] = static_cast<int>(free_nodes.size());
      free_nodes.push_back(n);
    }
    if (free_nodes.empty()) return least;
    const int outside = static_cast<int>(free_nodes.size());  // stands for all nodes that are out
    LeastCut problem(outside + 1);
    problem.MustBeOut(outside);
    for (const int node : free_nodes)
      for (const int before : predecessors_[node])
        if (number[before] >= 0) problem.Implies(number[node], number[before]);
    for (const ProfileTensor& tensor : profile_.tensors) {
      std::vector<int> early, late;
      bool in = tensor.early.empty(), out = false;
      for (const int node : tensor.early) {
        in = in || least.Contains(node);
        if (number[node] >= 0) early.push_back(number[node]);
      }
      for (const int node : tensor.late) {
        if (number[node] >= 0) {
          late.push_back(number[node]);
        } else if (!least.Contains(node)) {
          out = true;
        }
      }
      if (in) early.clear();
      if (out) late = {outside};
      if ((!in && early.empty()) || late.empty() || (in && out)) continue;
      problem.Crosses(early, late, tensor.bytes);
    }
    const std::vector<bool> in = problem.Solve();
    NodeSet out = least;
    for (const int node : free_nodes)
      if (in[number[node]]) out.Insert(node);
    return out;
  }

  void Relate(const std::vector<NodeSet>& least, CutLattice* out) const {
    const int cuts = out->size();
    std::vector<NodeSet> heavy;
    for (const NodeSet& set : least) heavy.push_back(HeavyOf(set));
    out->before_.assign(cuts, NodeSet(cuts));
    out->behind_.resize(cuts);
    std::vector<int> longest(cuts, 0);
    for (int a = 0; a < cuts; ++a) {
      for (int b = a + 1; b < cuts; ++b) {
        if (heavy[a] == heavy[b] || !heavy[a].IsSubsetOf(heavy[b])) continue;
        out->before_[a].Insert(b);
        out->behind_[a].push_back(b);
        longest[b] = std::max(longest[b], longest[a] + 1);
      }
    }
    // A model without any heavy node is one stage.
    if (cuts == 2 && out->behind_[0].empty()) {
      out->before_[0].Insert(1);
      out->behind_[0].push_back(1);
      longest[1] = 1;
    }
    out->most_stages_ = longest[cuts - 1];
  }

  const Profile& profile_;
  const LatticeOptions& options_;
  const int count_;
  const std::vector<std::vector<int>> predecessors_;
  std::vector<int> together_;  // heavy nodes that are tied to a node, itself included
  NodeSet heavy_;
  std::vector<int> heavy_nodes_;
  std::vector<NodeSet> closures_;
};

CutLattice::CutLattice(const Profile& profile, const LatticeOptions& options) {
  LatticeBuilder(profile, options).Build(this);
}

CutLattice::CutLattice(const Profile& profile, const std::vector<std::vector<int>>& stages)
    : nodes_(static_cast<int>(profile.nodes.size())),
      complete_(false),
      most_stages_(static_cast<int>(stages.size())) {
  const int count = static_cast<int>(stages.size()) + 1;
  cuts_.emplace_back(nodes_);
  for (const std::vector<int>& nodes : stages) {
    cuts_.push_back(cuts_.back());
    for (const int node : nodes) cuts_.back().Insert(node);
  }
  before_.assign(count, NodeSet(count));
  behind_.resize(count);
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b) {
      before_[a].Insert(b);
      behind_[a].push_back(b);
    }
  }
  CountBytes(profile);
}

void CutLattice::CountBytes(const Profile& profile) {
  forward_bytes_.assign(size(), 0);
  gradient_bytes_.assign(size(), 0);
  for (int c = 1; c < last(); ++c) {
    const auto in = [&](int node) { return cuts_[c].Contains(node); };
    for (const ProfileTensor& tensor : profile.tensors) {
      if (!tensor.early.empty() && std::ranges::none_of(tensor.early, in)) continue;
      if (std::ranges::all_of(tensor.late, in)) continue;
      (tensor.gradient ? gradient_bytes_ : forward_bytes_)[c] += tensor.bytes;
    }
  }
}

std::vector<int> CutLattice::NodesBetween(int from, int to) const {
  std::vector<int> out;
  for (int n = 0; n < nodes_; ++n)
    if (cuts_[to].Contains(n) && !cuts_[from].Contains(n)) out.push_back(n);
  return out;
}

}  // namespace pipedream
