#include "common/planner/straight.h"

#include <algorithm>
#include <limits>

namespace pipedream {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

std::optional<Partition> LeastLargest(
    const StraightLimits& limits,
    const std::function<double(int stage, const StagePart& part)>& cost) {
  const int nodes = static_cast<int>(limits.cut.size());
  const int stages = static_cast<int>(limits.replicas.size());
  std::vector<int> important(nodes + 1, 0);  // significant nodes before this one
  for (int n = 0; n < nodes; ++n) important[n + 1] = important[n] + (limits.significant[n] ? 1 : 0);
  // least[s][n]: of nodes [n, nodes) in stages s and later; end[s][n]: of stage s then.
  std::vector<std::vector<double>> least(stages + 1, std::vector<double>(nodes + 1, kNever));
  std::vector<std::vector<int>> ends(stages, std::vector<int>(nodes + 1, -1));
  least[stages][nodes] = 0;
  for (int s = stages - 1; s >= 0; --s) {
    for (int begin = nodes - 1; begin >= 0; --begin) {
      if (!limits.cut[begin] || (s == 0) != (begin == 0)) continue;
      for (int end = begin + 1; end <= nodes; ++end) {
        if (least[s + 1][end] == kNever || important[end] == important[begin]) continue;
        const double own = cost(s, {begin, end, limits.replicas[s]});
        const double largest = std::max(own, least[s + 1][end]);
        if (largest < least[s][begin]) {
          least[s][begin] = largest;
          ends[s][begin] = end;
        }
      }
    }
  }
  if (stages == 0 || ends[0][0] < 0) return std::nullopt;
  Partition out;
  for (int s = 0, begin = 0; s < stages; ++s) {
    out.push_back({begin, ends[s][begin], limits.replicas[s]});
    begin = out.back().end;
  }
  return out;
}

}  // namespace pipedream
