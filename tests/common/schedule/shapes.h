// Shapes of runs for the schedule tests.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "common/schedule/schedule_table.h"

namespace pipedream {

inline ScheduleShape MakeShape(std::vector<int> replicas, int64_t minibatches, int m = 1,
                               int64_t epochs = 1, int64_t evaluation = 0) {
  ScheduleShape shape;
  shape.replicas = std::move(replicas);
  shape.minibatches_per_epoch = minibatches;
  shape.microbatches_per_minibatch = m;
  shape.epochs = epochs;
  shape.evaluation_microbatches = evaluation;
  return shape;
}

// The seed of a random test: $PIPEDREAM_TEST_SEED or `fallback`.
inline uint32_t TestSeed(uint32_t fallback) {
  const char* seed = std::getenv("PIPEDREAM_TEST_SEED");
  return seed != nullptr ? static_cast<uint32_t>(std::strtoul(seed, nullptr, 10)) : fallback;
}

// p 1..6, r 1..3, m 1..6 where the schedule takes it, epochs 1..3, evaluation 0..3, now and then
// deeper pipelines and global norms.
inline ScheduleShape RandomShape(std::mt19937& random, bool synchronous) {
  auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::vector<int> replicas(draw(1, 6));
  for (int& r : replicas) r = draw(1, 3);
  ScheduleShape shape =
      MakeShape(replicas, draw(1, 13), synchronous ? draw(1, 6) : 1, draw(1, 3), draw(0, 3));
  shape.global_norm = synchronous && draw(0, 2) == 0;
  if (draw(0, 3) == 0) {
    // Deeper than the rule, and in microbatches never shallower than the stage behind.
    std::vector<int> warmup(replicas.size());
    for (int s = shape.stages() - 1, ahead = 0; s >= 0; --s) {
      ahead = std::max(ahead, (WarmupDepth(shape, StageId(s)) + draw(0, 2)) * replicas[s]);
      warmup[s] = (ahead + replicas[s] - 1) / replicas[s];
      ahead = warmup[s] * replicas[s];
    }
    shape.warmup = warmup;
  }
  return shape;
}

inline std::string Describe(const ScheduleShape& shape) {
  return fmt::format("replicas {} minibatches {} m {} epochs {} evaluation {} warmup {}",
                     fmt::join(shape.replicas, ","), shape.minibatches_per_epoch,
                     shape.microbatches_per_minibatch, shape.epochs, shape.evaluation_microbatches,
                     fmt::join(shape.warmup, ","));
}

}  // namespace pipedream
