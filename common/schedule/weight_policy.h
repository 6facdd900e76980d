// How weight versions and updates relate to microbatches: what each way of training means, by
// formula. Passes assign by these, the validator demands them, the executor weighs gradients by
// them. Formulas and names: the project's oracle; PipeDream (SOSP 2019) for stashing and vertical
// sync, PipeDream-2BW (ICML 2021), PACI (arXiv 2309.06332).
#pragma once

#include <cstdint>
#include <optional>

#include "common/schedule/schedule_shape.h"

namespace pipedream {

enum class WeightPolicy : uint8_t {
  kFlush,  // synchronous: every microbatch of minibatch t reads version t
  kStash,  // F reads the newest version, B the one its F read; an update every r_s microbatches
  kVerticalSync,  // as kStash, but all stages read the version that stage 0 read
  kDoubleBuffer,  // 2BW: minibatch t reads version max(0, t - 1) on every stage
  kSpeculative,   // kFlush, but updates do not wait for the global norm: V undoes those it forbids
  kSingle,        // one copy: F and B each read what is newest then; an update per minibatch
};

// Whether it equals plain minibatch training.
bool IsSynchronous(WeightPolicy policy);
// Whether updates follow the replicas' rounds of single microbatches (m is 1), not minibatches.
bool StepsByRound(WeightPolicy policy);
// Microbatches that an update of `stage` covers: the minibatch, or a round of the replicas.
int64_t UpdateSpan(const ScheduleShape& shape, WeightPolicy policy, StageId stage);
// Updates that `stage` makes in the whole run; the last may cover fewer microbatches.
int64_t UpdateCount(const ScheduleShape& shape, WeightPolicy policy, StageId stage);
// The update that the gradient of `microbatch` enters.
int64_t UpdateOf(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                 MicrobatchId microbatch);

// The version that the forward of `microbatch` reads; nullopt: the newest there is. Vertical sync:
// stage 0's version max(0, floor(i / r_0) - d(0)) holds all microbatches before that times r_0; a
// stage with r_s replicas reads the version that holds as many of them as whole rounds allow.
std::optional<WeightVersion> ForwardVersion(const ScheduleShape& shape, WeightPolicy policy,
                                            StageId stage, MicrobatchId microbatch);
// Whether a backward reads the version of its forward, which is therefore kept; else the newest.
bool BackwardReadsForwardVersion(WeightPolicy policy);
// How many updates a version may be behind the one that its microbatch enters.
int64_t StalenessBound(const ScheduleShape& shape, WeightPolicy policy, StageId stage);

// What evaluation number `epoch` reads: the weights after the epoch's updates. In the modes that
// update by rounds, one that straddles the epoch's end is not in them (floor(N / r_s) after N
// microbatches), except at the end of the run, where the final weights are read.
WeightVersion EvaluationVersion(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                                int64_t epoch);

// Global norms. Norm k sums what the stages' updates over microbatches [k, k + 1) * NormSpan give:
// the minibatch, or the least common multiple of the replica counts.
int64_t NormSpan(const ScheduleShape& shape, WeightPolicy policy);
int64_t NormCount(const ScheduleShape& shape, WeightPolicy policy);
// The first update of `stage` that ends where norm k ends, or beyond: norm k takes its gradient.
int64_t UpdateOfNorm(const ScheduleShape& shape, WeightPolicy policy, StageId stage, int64_t norm);
// The norm that an update is clipped by. Flush and 2BW: its own, exactly. The others step before
// the whole gradient exists; they use the newest norm that is complete when the pipeline is full,
// the same for all stages: NormLag norms back, and norm 0 until then. kNoNorm: an update that
// comes before any norm can be complete (inside norm 0, where replica counts differ).
inline constexpr int64_t kNoNorm = -1;
int64_t NormOf(const ScheduleShape& shape, WeightPolicy policy, StageId stage, int64_t update);
int64_t NormLag(const ScheduleShape& shape, WeightPolicy policy);

}  // namespace pipedream
