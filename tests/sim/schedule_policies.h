// What each schedule promises, as formulas over stages and units (microbatches). A schedule that is
// listed here is drawn at random and compared with the formula oracle by
// schedule_semantics_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <vector>

namespace pipedream {

// What a policy's formulas may depend on.
struct DrawnPipeline {
  std::vector<int> replicas;   // per stage
  std::vector<int64_t> depth;  // warm-up forwards per stage, in rounds of its replicas
  int64_t microbatches = 1;    // per minibatch
};

struct SchedulePolicy {
  const char* schedule;
  bool synchronous = false;   // unreplicated: bit-equal to the one-stage run
  bool microbatches = false;  // takes more than one microbatch per minibatch
  bool replicated = true;     // takes more than one replica per stage
  bool depths = true;         // takes warm-up depths other than the rule's
  bool clips = false;         // takes clipping by the global norm
  // Version of the stage that the forward of a unit reads, and its backward; null: the same.
  int64_t (*forward_version)(const DrawnPipeline& p, int stage, int64_t unit);
  int64_t (*backward_version)(const DrawnPipeline& p, int stage, int64_t unit) = nullptr;
  // Consecutive units of one update.
  int64_t (*units_per_update)(const DrawnPipeline& p, int stage);
  // FormulaRun::norm_lag; null: 0.
  int64_t (*norm_lag)(const DrawnPipeline& p, int stage, int64_t update) = nullptr;
  // Fewer microbatches per minibatch are not drawn; null: 1.
  int64_t (*least_microbatches)(const DrawnPipeline& p) = nullptr;
};

inline void PrintTo(const SchedulePolicy& policy, std::ostream* out) { *out << policy.schedule; }

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

inline const SchedulePolicy kSchedulePolicies[] = {
    {.schedule = "pipedream",
     .forward_version =
         [](const DrawnPipeline& p, int s, int64_t t) {
           return std::max<int64_t>(0, t / p.replicas[s] - p.depth[s]);
         },
     .units_per_update = UnitsOfRound},
    {.schedule = "pipedream_vsync",
     .replicated = false,
     .forward_version = [](const DrawnPipeline& p, int,
                           int64_t t) { return std::max<int64_t>(0, t - p.depth[0]); },
     .units_per_update = UnitsOfRound},
    {.schedule = "2bw",
     .microbatches = true,
     .clips = true,
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
     .least_microbatches = MostReplicas},
    {.schedule = "zb_h1",
     .synchronous = true,
     .microbatches = true,
     .clips = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "zb_h2",
     .synchronous = true,
     .microbatches = true,
     .clips = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "sequential",
     .synchronous = true,
     .microbatches = true,
     .clips = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "1f1b",
     .synchronous = true,
     .microbatches = true,
     .clips = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
    {.schedule = "gpipe",
     .synchronous = true,
     .microbatches = true,
     .clips = true,
     .forward_version = MinibatchOf,
     .units_per_update = UnitsOfMinibatch},
};

}  // namespace pipedream
