#include "worker/engine/memory_plan.h"

#include <gtest/gtest.h>

#include "common/base/random.h"

namespace pipedream {
namespace {

TEST(PlanArena, GivesDisjointLifetimesTheSameMemory) {
  ArenaPlan plan = PlanArena({{100, 0, 1}, {100, 2, 3}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 128u);
}

TEST(PlanArena, KeepsTensorsThatMeetInOneStepApart) {
  ArenaPlan plan = PlanArena({{64, 0, 1}, {64, 1, 2}});
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 128u);
}

TEST(PlanArena, NeedsNothingForNothing) { EXPECT_EQ(PlanArena({}).bytes, 0u); }

TEST(PlanArena, NeverOverlapsTwoThatLiveTogether) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Lifetime> items;
    for (uint64_t i = 0; i < 40; ++i) {
      auto r = Philox(seed, 0, i);
      int first = static_cast<int>(r[0] % 20);
      items.push_back({1 + r[1] % 5000, first, first + static_cast<int>(r[2] % 6)});
    }
    ArenaPlan plan = PlanArena(items);
    for (size_t a = 0; a < items.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % kBufferAlignment, 0u);
      EXPECT_LE(plan.offsets[a] + items[a].bytes, plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        if (items[a].last < items[b].first || items[b].last < items[a].first) continue;
        EXPECT_TRUE(plan.offsets[a] + items[a].bytes <= plan.offsets[b] ||
                    plan.offsets[b] + items[b].bytes <= plan.offsets[a])
            << a << " and " << b;
      }
    }
  }
}

}  // namespace
}  // namespace pipedream
