// What each schedule promises, as formulas over stages and units (microbatches). A schedule that is
// listed here is drawn at random and compared with the formula oracle by
// schedule_semantics_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

namespace pipedream {

// What a policy's formulas may depend on.
struct DrawnPipeline {
  std::vector<int> replicas;   // per stage
  std::vector<int64_t> depth;  // warm-up forwards per stage, in rounds of its replicas
  std::vector<int> warmup;     // as given to the schedule; empty: its rule, which `depth` is
  std::vector<int> device_of;  // per stage; empty: each its own
  int64_t microbatches = 1;    // per minibatch
  int64_t units = 1;           // of the whole run
};

struct SchedulePolicy {
  const char* schedule;
  bool synchronous = false;     // unreplicated: bit-equal to the one-stage run
  bool microbatches = false;    // takes more than one microbatch per minibatch
  bool replicated = true;       // takes more than one replica per stage
  bool equal_replicas = false;  // takes as many for all stages only
  bool depths = true;           // takes warm-up depths other than the rule's
  int most_stages = 5;
  // Stages on one device, and where they are.
  int least_chunks = 1, most_chunks = 1;
  int (*device_of)(int stage, int devices) = nullptr;
  // Version of the stage that the forward of a unit reads, and its backward; null: the same.
  int64_t (*forward_version)(const DrawnPipeline& p, int stage, int64_t unit);
  int64_t (*backward_version)(const DrawnPipeline& p, int stage, int64_t unit) = nullptr;
  // Consecutive units of one update.
  int64_t (*units_per_update)(const DrawnPipeline& p, int stage);
  // Units that a norm stands for, where a stage steps before its own norm is complete; null: every
  // update looks at its own norm, exactly, and stages skip updates together.
  int64_t (*units_per_norm)(const DrawnPipeline& p) = nullptr;
  // Fewer microbatches per minibatch are not drawn; null: 1.
  int64_t (*least_microbatches)(const DrawnPipeline& p) = nullptr;
};

inline void PrintTo(const SchedulePolicy& policy, std::ostream* out) { *out << policy.schedule; }
inline std::string NameOfPolicy(const testing::TestParamInfo<SchedulePolicy>& info) {
  return info.param.schedule;
}

// The rule for warm-up depths that are not given: the workers behind, in rounds of the stage.
inline int64_t DepthByRule(const std::vector<int>& replicas, size_t stage) {
  int64_t workers = 0;
  for (size_t s = stage; s < replicas.size(); ++s) workers += replicas[s];
  return (workers - 1) / replicas[stage];
}

inline int64_t UnitsOfMinibatch(const DrawnPipeline& p, int) { return p.microbatches; }
inline int64_t UnitsOfRound(const DrawnPipeline& p, int stage) { return p.replicas[stage]; }
inline int64_t MinibatchOf(const DrawnPipeline& p, int, int64_t unit) {
  return unit / p.microbatches;
}

inline int64_t MostReplicas(const DrawnPipeline& p) {
  return *std::max_element(p.replicas.begin(), p.replicas.end());
}
// A replica may have no more microbatches in flight than a minibatch gives it.
inline int64_t LeastOfAsynchronous(const DrawnPipeline& p) {
  int64_t least = MostReplicas(p);
  for (size_t s = 0; s < p.replicas.size(); ++s) {
    least = std::max(least, p.depth[s] * p.replicas[s]);
  }
  return least;
}

// A norm covers whole rounds of every stage.
inline int64_t UnitsOfAllRounds(const DrawnPipeline& p) {
  int64_t units = 1;
  for (int r : p.replicas) units = std::lcm(units, int64_t{r});
  return units;
}

// The update of the stage that a norm takes: the last one that begins within the norm's units.
inline int64_t UpdateOfNorm(const SchedulePolicy& policy, const DrawnPipeline& p, int stage,
                            int64_t norm) {
  const int64_t end = std::min((norm + 1) * policy.units_per_norm(p), p.units);
  return (end - 1) / policy.units_per_update(p, stage);
}

// The norm that an update is clipped by: as many back as cover what stage 0 has in flight, the
// first one until there are so many; -1: the update is made before the first one is complete.
inline int64_t NormOfUpdate(const SchedulePolicy& policy, const DrawnPipeline& p, int stage,
                            int64_t update) {
  const int64_t span = policy.units_per_norm(p);
  const int64_t in_flight = (p.depth[0] + 1) * p.replicas[0];
  const int64_t lag = (in_flight + span - 1) / span;
  const int64_t own = update * policy.units_per_update(p, stage) / span;
  if (own == 0 && update < UpdateOfNorm(policy, p, stage, 0)) return -1;
  return std::max<int64_t>(0, own - lag);
}

inline const SchedulePolicy kSchedulePolicies[] = {
    {.schedule = "pipedream",
     .forward_version =
         [](const DrawnPipeline& p, int s, int64_t t) {
           return std::max<int64_t>(0, t / p.replicas[s] - p.depth[s]);
         },
     .units_per_update = UnitsOfRound,
     .units_per_norm = UnitsOfAllRounds},
    {.schedule = "pipedream_vsync",
     .forward_version =
         [](const DrawnPipeline& p, int s, int64_t t) {
           // Stage 0's version holds so many units; this stage has it in whole rounds.
           const int64_t units =
               std::max<int64_t>(0, t / p.replicas[0] - p.depth[0]) * p.replicas[0];
           return units / p.replicas[s];
         },
     .units_per_update = UnitsOfRound,
     .units_per_norm = UnitsOfAllRounds},
    {.schedule = "2bw",
     .microbatches = true,
     .forward_version = [](const DrawnPipeline& p, int s,
                           int64_t u) { return std::max<int64_t>(0, MinibatchOf(p, s, u) - 1); },
     .units_per_update = UnitsOfMinibatch,
     .least_microbatches = LeastOfAsynchronous},
    {.schedule = "paci",
     .microbatches = true,
     .forward_version =
         [](const DrawnPipeline& p, int s, int64_t u) {
           // Microbatches whose backwards are done before this forward.
           return std::max<int64_t>(0, u - p.depth[s] * p.replicas[s]) / p.microbatches;
         },
     .backward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch,
     .units_per_norm = [](const DrawnPipeline& p) { return p.microbatches; },
     .least_microbatches = MostReplicas},
    {.schedule = "interleaved",
     .synchronous = true,
     .microbatches = true,
     .equal_replicas = true,
     .depths = false,
     .most_stages = 6,
     .most_chunks = 3,
     .device_of = [](int stage, int devices) { return stage % devices; },
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "zb_v",
     .synchronous = true,
     .microbatches = true,
     .equal_replicas = true,
     .depths = false,
     .most_stages = 6,
     .least_chunks = 2,
     .most_chunks = 2,
     .device_of = [](int stage, int devices) { return std::min(stage, 2 * devices - 1 - stage); },
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "data_parallel",
     .synchronous = true,
     .microbatches = true,
     .most_stages = 1,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "zb_h1",
     .synchronous = true,
     .microbatches = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "zb_h2",
     .synchronous = true,
     .microbatches = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "sequential",
     .synchronous = true,
     .microbatches = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "1f1b",
     .synchronous = true,
     .microbatches = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "gpipe",
     .synchronous = true,
     .microbatches = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
};

}  // namespace pipedream
