// Two simulated runs that must not differ.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "worker/engine/simulation.h"

namespace pipedream {

inline void ExpectBitEqual(const SimulationResult& a, const SimulationResult& b) {
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.evaluations.size(), b.evaluations.size());
  for (size_t i = 0; i < a.evaluations.size(); ++i)
    EXPECT_EQ(a.evaluations[i].loss_sum, b.evaluations[i].loss_sum);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, tensor] : a.weights) {
    auto other = b.weights.find(name);
    ASSERT_NE(other, b.weights.end()) << name;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes(), other->second.bytes())) << name;
  }
}

}  // namespace pipedream
