// Shapes of runs for the schedule tests.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "common/schedule/ledger.h"
#include "common/schedule/schedules.h"

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

// A run whose every microbatch holds samples (IsFilled).
inline bool AllFilled(MicrobatchId) { return true; }

// The seed of a random test: $PIPEDREAM_TEST_SEED or `fallback`.
inline uint32_t TestSeed(uint32_t fallback) {
  const char* seed = std::getenv("PIPEDREAM_TEST_SEED");
  return seed != nullptr ? static_cast<uint32_t>(std::strtoul(seed, nullptr, 10)) : fallback;
}

inline bool UpdatesByMinibatch(const ScheduleInfo& info) { return !StepsByRound(info.policy); }

// p 1..6, r 1..3, m 1..6 where the schedule takes it, epochs 1..3, evaluation 0..3, chunks where it
// takes them, now and then deeper pipelines, global norms, skipping edges and tied stages.
inline ScheduleShape RandomShape(std::mt19937& random, const ScheduleInfo& info) {
  auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const bool by_minibatch = UpdatesByMinibatch(info);
  std::vector<int> replicas(info.name == "data_parallel" ? 1 : draw(1, 6));
  for (int& r : replicas) r = draw(1, 3);
  if (info.place != nullptr) {
    const int chunks = std::min(draw(info.min_chunks, info.max_chunks), 3);
    replicas.assign(draw(1, 4) * chunks, draw(1, 3));
  }
  ScheduleShape shape =
      MakeShape(replicas, draw(1, 13), by_minibatch ? draw(1, 6) : 1, draw(1, 3), draw(0, 3));
  if (info.place != nullptr) {
    const int chunks = shape.stages() % 2 == 0 && info.min_chunks == 2 ? 2 : draw(1, 2);
    const int devices = shape.stages() % chunks == 0 ? shape.stages() / chunks : shape.stages();
    shape.device_of = info.place(devices, shape.stages() / devices);
  }
  if (by_minibatch && !info.synchronous) {
    const int most = *std::max_element(shape.replicas.begin(), shape.replicas.end());
    shape.microbatches_per_minibatch = std::max(shape.microbatches_per_minibatch, most);
  }
  shape.global_norm = draw(0, 2) == 0;
  if (draw(0, 3) == 0) {
    shape.edges = EdgesOf(shape);
    for (int s = 0; s + 2 < shape.stages(); ++s) {
      if (draw(0, 2) == 0)
        shape.edges.push_back({s, draw(s + 2, shape.stages() - 1), draw(0, 1) == 0});
    }
    std::sort(shape.edges.begin(), shape.edges.end());
  }
  if (shape.stages() > 1 && draw(0, 3) == 0 &&
      (info.policy == WeightPolicy::kFlush || info.policy == WeightPolicy::kDoubleBuffer)) {
    shape.tied_stages = {0, shape.stages() - 1};
  }
  if (info.place == nullptr && info.policy != WeightPolicy::kDoubleBuffer && draw(0, 3) == 0) {
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
  return fmt::format(
      "replicas {} minibatches {} m {} epochs {} evaluation {} warmup {} devices {} edges {} tied "
      "{} "
      "norm {}",
      fmt::join(shape.replicas, ","), shape.minibatches_per_epoch, shape.microbatches_per_minibatch,
      shape.epochs, shape.evaluation_microbatches, fmt::join(shape.warmup, ","),
      fmt::join(shape.device_of, ","), shape.edges.size(), fmt::join(shape.tied_stages, ","),
      shape.global_norm);
}

}  // namespace pipedream
