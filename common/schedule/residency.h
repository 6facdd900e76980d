// What a stage replica holds as its program runs: activations in flight, weight versions alive and
// gradient sums open, by the rules of the executor's stores. A version lives while it is the
// newest, or read by a microbatch between its F and its B (or W) where the policy keeps it for
// that, or pinned by P.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/schedule/instruction.h"
#include "common/schedule/weight_policy.h"

namespace pipedream {

class Residency {
 public:
  // Borrows the shape. Of one stage: instructions of other chunks are not for it.
  Residency(const ScheduleShape& shape, WeightPolicy policy, StageId stage);
  // The instruction has run. Instructions that break the rules (B without F) are ignored.
  void Apply(const Instruction& instruction);

  int in_flight() const { return static_cast<int>(in_flight_.size()); }
  int versions() const { return static_cast<int>(alive_.size()); }
  int peak_in_flight() const { return peak_in_flight_; }
  int peak_versions() const { return peak_versions_; }
  // Gradient sums held at once: of an update that waits, and of the next that has begun.
  int peak_gradients() const { return peak_gradients_; }
  WeightVersion latest() const { return latest_; }
  bool Alive(WeightVersion version) const;

 private:
  void Hold(WeightVersion version);
  void Drop(WeightVersion version);
  void Finish(MicrobatchId microbatch);

  const ScheduleShape& shape_;
  WeightPolicy policy_;
  StageId stage_;
  WeightVersion latest_{0};
  std::vector<std::pair<MicrobatchId, WeightVersion>> in_flight_;
  std::vector<std::pair<WeightVersion, int>> alive_;  // with the number of holders
  int peak_in_flight_ = 0;
  int peak_versions_ = 1;
  int peak_gradients_ = 1;
};

}  // namespace pipedream
