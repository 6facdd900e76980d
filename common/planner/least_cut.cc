#include "common/planner/least_cut.h"

#include <algorithm>
#include <limits>

namespace pipedream {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;

}  // namespace

LeastCut::LeastCut(int nodes) : nodes_(nodes), source_(nodes), sink_(nodes + 1) {
  out_.resize(nodes + 2);
}

int LeastCut::AddVertex() {
  out_.emplace_back();
  return static_cast<int>(out_.size()) - 1;
}

void LeastCut::AddArc(int from, int to, int64_t capacity) {
  out_[from].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({to, capacity});
  out_[to].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({from, 0});
}

void LeastCut::MustBeIn(int node) { AddArc(source_, node, kUnlimited); }

void LeastCut::MustBeOut(int node) { AddArc(node, sink_, kUnlimited); }

void LeastCut::Implies(int node, int other) { AddArc(node, other, kUnlimited); }

void LeastCut::Earns(int node, int64_t amount) {
  if (amount > 0) AddArc(source_, node, amount);
}

void LeastCut::Crosses(const std::vector<int>& early, const std::vector<int>& late,
                       int64_t amount) {
  if (amount <= 0) return;
  int from = source_;
  if (early.size() == 1) {
    from = early[0];
  } else if (!early.empty()) {
    from = AddVertex();
    for (const int node : early) AddArc(node, from, kUnlimited);
  }
  if (late.size() == 1) return AddArc(from, late[0], amount);
  const int to = AddVertex();
  AddArc(from, to, amount);
  for (const int node : late) AddArc(to, node, kUnlimited);
}

bool LeastCut::Levels() {
  level_.assign(out_.size(), -1);
  level_[source_] = 0;
  std::vector<int> reached = {source_};
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const int arc : out_[reached[i]]) {
      const Arc& a = arcs_[arc];
      if (a.capacity <= 0 || level_[a.to] >= 0) continue;
      level_[a.to] = level_[reached[i]] + 1;
      reached.push_back(a.to);
    }
  }
  return level_[sink_] >= 0;
}

int64_t LeastCut::Push(int vertex, int64_t limit) {
  if (vertex == sink_) return limit;
  int64_t pushed = 0;
  for (size_t& i = next_[vertex]; i < out_[vertex].size(); ++i) {
    const int arc = out_[vertex][i];
    const int to = arcs_[arc].to;
    if (arcs_[arc].capacity <= 0 || level_[to] != level_[vertex] + 1) continue;
    const int64_t flow = Push(to, std::min(limit - pushed, arcs_[arc].capacity));
    arcs_[arc].capacity -= flow;
    arcs_[arc ^ 1].capacity += flow;
    pushed += flow;
    if (pushed == limit) return pushed;
  }
  return pushed;
}

std::vector<bool> LeastCut::Solve() {
  while (Levels()) {
    next_.assign(out_.size(), 0);
    Push(source_, kUnlimited);
  }
  std::vector<bool> in(nodes_);
  for (int node = 0; node < nodes_; ++node) in[node] = level_[node] >= 0;
  return in;
}

}  // namespace pipedream
