// What the first steps of a run say of its plan: measured stage and link times beside predicted
// ones, and the topology as it turned out.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/topology.h"
#include "coordinator/job/job.h"

namespace pipedream {

// Of one attempt. Not thread-safe; deterministic.
class RunFeedback {
 public:
  explicit RunFeedback(Plan plan) : plan_(std::move(plan)) {}

  // `training_only`: no evaluation has begun yet, whose time would count as forward.
  void Add(const StageStatus& status, bool training_only);
  // In order of stage and replica; empty until some replica has run long enough.
  std::vector<StageComparison> Comparisons() const;
  // Every replica has.
  bool complete() const;
  // `topology` with the speeds and the links of the plan's workers as measured.
  ClusterTopology AsMeasured(ClusterTopology topology) const;

 private:
  struct Window {
    StageStatus first;  // once start-up is over
    StageStatus last;
  };
  // Seconds of compute per microbatch in the window; 0: too short.
  static double Measured(const Window& window);
  // The prediction is that of the stage's slowest replica; this is what it means for `device`, one
  // of them. 0: unlike kinds serve the stage, and nobody can say.
  double Expected(const ClusterTopology& topology, const StageComparison& comparison,
                  const DeviceInfo& device) const;
  double PredictedCompute(int stage) const;  // of all stages of its device

  const Plan plan_;
  std::map<std::pair<int, int>, Window> windows_;
};

}  // namespace pipedream
