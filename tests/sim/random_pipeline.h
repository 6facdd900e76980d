// Random pipelines that a schedule takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/sim/schedule_policies.h"
#include "tests/support/random_source.h"

namespace pipedream {

// Up to 3 replicas per stage where the policy allows it, depths by the rule or given. `chunks`
// stages on each device; they divide the stages.
inline DrawnPipeline DrawPipeline(const SchedulePolicy& policy, int stages, int chunks,
                                  bool replicated, RandomSource* random) {
  DrawnPipeline p;
  for (int s = 0; s < stages && policy.device_of != nullptr; ++s)
    p.device_of.push_back(policy.device_of(s, stages / chunks));
  for (int s = 0; s < stages; ++s)
    p.replicas.push_back(
        replicated && policy.replicated && random->Chance(2) ? random->Between(2, 3) : 1);
  if (policy.equal_replicas) p.replicas.assign(stages, p.replicas[0]);
  p.depth.resize(stages);
  for (int s = 0; s < stages; ++s) p.depth[s] = DepthByRule(p.replicas, s);
  if (!policy.depths || !random->Chance(3)) return p;
  // Before a round's backwards a stage has to send all that the next one forwards before the
  // backwards of the same microbatches, or both wait for ever: with d, r here and d', r' there,
  // d >= 1 + floor(((d' + 1) r' - 2) / r).
  int64_t ahead = 0;  // units, of any stage behind
  for (int s = stages - 1; s >= 0; --s) {
    int64_t least = 0;
    if (s + 1 < stages)
      least = ((p.depth[s + 1] + 1) * p.replicas[s + 1] - 2 + p.replicas[s]) / p.replicas[s];
    // Vertical sync reads versions that stage 0 has given up last.
    if (s == 0) least = std::max(least, (ahead + p.replicas[s] - 1) / p.replicas[s]);
    p.depth[s] = least + random->Between(0, 2);
    ahead = std::max(ahead, p.depth[s] * p.replicas[s]);
  }
  p.warmup.assign(p.depth.begin(), p.depth.end());
  return p;
}

}  // namespace pipedream
