#include "common/planner/straight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace pipedream {
namespace {

double Largest(const Partition& partition, const std::vector<double>& times) {
  double largest = 0;
  for (const StagePart& part : partition) {
    double sum = 0;
    for (int n = part.begin; n < part.end; ++n) sum += times[n];
    largest = std::max(largest, sum / part.replicas);
  }
  return largest;
}

TEST(LeastLargestTest, MatchesExhaustiveSearch) {
  const unsigned seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const int nodes = draw(1, 7);
    StraightLimits limits;
    std::vector<double> times;
    for (int n = 0; n < nodes; ++n) {
      times.push_back(draw(0, 9));
      limits.cut.push_back(n == 0 || draw(0, 3) > 0);
      limits.significant.push_back(draw(0, 4) > 0);
    }
    for (int s = draw(1, 4); s > 0; --s) limits.replicas.push_back(draw(1, 3));
    double best = -1;
    Partition partition;
    std::function<void(int)> extend = [&](int begin) {
      const size_t s = partition.size();
      if (s == limits.replicas.size()) {
        if (begin == nodes && (best < 0 || Largest(partition, times) < best))
          best = Largest(partition, times);
        return;
      }
      bool significant = false;
      for (int end = begin + 1; end <= nodes; ++end) {
        significant = significant || limits.significant[end - 1];
        if (!significant || (end < nodes && !limits.cut[end])) continue;
        partition.push_back({begin, end, limits.replicas[s]});
        extend(end);
        partition.pop_back();
      }
    };
    extend(0);
    const auto found =
        LeastLargest(limits, [&](int, const StagePart& part) { return Largest({part}, times); });
    ASSERT_EQ(found.has_value(), best >= 0);
    if (!found) continue;
    EXPECT_DOUBLE_EQ(Largest(*found, times), best);
    EXPECT_EQ(found->front().begin, 0);
    EXPECT_EQ(found->back().end, nodes);
    for (size_t s = 0; s < found->size(); ++s) EXPECT_EQ((*found)[s].replicas, limits.replicas[s]);
  }
}

}  // namespace
}  // namespace pipedream
