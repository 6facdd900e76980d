#include "worker/engine/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace pipedream {

ArenaPlan PlanArena(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  ArenaPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<size_t> placed;  // by offset
  for (size_t index : order) {
    const Lifetime& item = lifetimes[index];
    const size_t size = AlignUp(item.bytes);
    size_t offset = 0;
    for (size_t other : placed) {
      const Lifetime& o = lifetimes[other];
      if (o.last < item.first || item.last < o.first) continue;
      if (offset + size <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + AlignUp(o.bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    auto position = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](size_t o, size_t p) { return o < plan.offsets[p]; });
    placed.insert(position, index);
  }
  return plan;
}

}  // namespace pipedream
