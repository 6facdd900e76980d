// From what a real run recorded to what the simulator is given.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/real_run.h"
#include "common/schedule/simulate.h"

namespace pipedream {

// The mean time of each kind of instruction at each stage (of a reduction: from the last replica's
// coming) and of packing on each edge, leaving out the first `warm_up` microbatches and their
// updates. One replica per stage, unless there is one stage only. An edge's latency is what passes,
// on average, from the moment that a message has been handed over to the moment that a worker which
// waits for it goes on; its bandwidth is unlimited, so it is that of messages of the run's size.
SimulateOptions MeasuredCosts(const RealRun& run, int64_t warm_up);

// Two spans of one run, measured or simulated.
struct RunTimes {
  double span_s = 0;  // from the last backward of the warm-up at stage 0 to the end of everything
  double minibatch_s =
      0;  // between such backwards of the warm-up and of the last minibatch, by minibatch
};
// `spans`: of a run of `minibatches` >= 2 minibatches of `microbatches`, the first of which is the
// warm-up; from the first worker, whose chunk 0 is stage 0.
RunTimes TimesOf(std::span<const Span> spans, int microbatches, int minibatches);

}  // namespace pipedream
