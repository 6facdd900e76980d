// The same random numbers everywhere, and the seeds of random tests.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

namespace pipedream {

class RandomSource {
 public:
  explicit RandomSource(uint32_t seed) : engine_(seed) {}
  uint32_t Next() { return static_cast<uint32_t>(engine_()); }
  int Between(int low, int high) {
    return low + static_cast<int>(Next() % static_cast<uint32_t>(high - low + 1));
  }
  bool Chance(int of) { return Between(1, of) == 1; }
  std::mt19937& engine() { return engine_; }

 private:
  std::mt19937 engine_;
};

// PIPEDREAM_TEST_SEED=n runs the draw n alone, over and over the same; PIPEDREAM_TEST_DRAWS=n makes
// n draws instead of the test's own number.
inline std::vector<uint32_t> TestSeeds(int draws) {
  if (const char* seed = std::getenv("PIPEDREAM_TEST_SEED"))
    return {static_cast<uint32_t>(std::strtoul(seed, nullptr, 10))};
  if (const char* count = std::getenv("PIPEDREAM_TEST_DRAWS")) draws = std::atoi(count);
  std::vector<uint32_t> seeds(draws);
  std::iota(seeds.begin(), seeds.end(), 20240611u);
  return seeds;
}

}  // namespace pipedream
