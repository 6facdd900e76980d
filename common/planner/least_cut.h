// The cheapest set of nodes that some must and some must not be in: a minimum cut (max-flow by
// Dinic's algorithm).
#pragma once

#include <cstdint>
#include <vector>

namespace pipedream {

class LeastCut {
 public:
  explicit LeastCut(int nodes);

  void MustBeIn(int node);
  void MustBeOut(int node);
  // If `node` is in, `other` is.
  void Implies(int node, int other);
  // Being in earns so much (lowers the cost); >= 0.
  void Earns(int node, int64_t amount);
  // Costs `amount` once if any of `early` is in and any of `late` is out. Empty early: always in.
  void Crosses(const std::vector<int>& early, const std::vector<int>& late, int64_t amount);

  // The smallest of the cheapest sets, by node. REQUIRES that the conditions can be met.
  std::vector<bool> Solve();

 private:
  struct Arc {
    int to;
    int64_t capacity;
  };
  int AddVertex();
  void AddArc(int from, int to, int64_t capacity);
  bool Levels();
  int64_t Push(int vertex, int64_t limit);

  const int nodes_;
  const int source_;  // in
  const int sink_;    // out
  std::vector<Arc> arcs_;  // an arc and its reverse are neighbours: 2k, 2k + 1
  std::vector<std::vector<int>> out_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

}  // namespace pipedream
