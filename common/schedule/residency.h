// What a worker holds as its program runs: activations in flight and weight versions alive, by the
// rules of the executor's stores. A version lives while it is the newest, or read by a microbatch
// between its F and its B (or W), or pinned by P.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/schedule/instruction.h"

namespace pipedream {

class Residency {
 public:
  Residency() { Hold(WeightVersion(0)); }
  // The instruction has run. Instructions that break the rules (B without F) are ignored.
  void Apply(const Instruction& instruction);

  int in_flight() const { return static_cast<int>(in_flight_.size()); }
  int versions() const { return static_cast<int>(alive_.size()); }
  int peak_in_flight() const { return peak_in_flight_; }
  int peak_versions() const { return peak_versions_; }
  WeightVersion latest() const { return latest_; }
  bool Alive(WeightVersion version) const;

 private:
  void Hold(WeightVersion version);
  void Drop(WeightVersion version);
  void Finish(MicrobatchId microbatch);

  WeightVersion latest_{0};
  std::vector<std::pair<MicrobatchId, WeightVersion>> in_flight_;
  std::vector<std::pair<WeightVersion, int>> alive_;  // with the number of holders
  int peak_in_flight_ = 0;
  int peak_versions_ = 1;
};

}  // namespace pipedream
