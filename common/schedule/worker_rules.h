// The rules that concern one worker alone (see validate.h): those of each of its stages, and those
// that bind them together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/schedule/schedule_table.h"
#include "common/schedule/stage_rules.h"
#include "common/schedule/validate.h"

namespace pipedream {

// Follows one worker's program, instruction by instruction.
class WorkerRules {
 public:
  // `memory` is by stage, or empty: rule V8 is not checked. Borrows both. REQUIRES: the worker
  // exists.
  WorkerRules(const ScheduleShape& shape, WeightPolicy policy, const Peer& worker,
              const std::vector<StageMemory>& memory);

  // The fault of running `instruction` next, if it is one.
  std::optional<Fault> Apply(const Instruction& instruction);
  // The fault of ending here.
  std::optional<Fault> Finish() const;
  // What the stage of that chunk has held.
  const Residency& residency(int chunk) const { return stages_[chunk].residency(); }

 private:
  std::optional<Fault> Tie(const Instruction& instruction);
  std::optional<Fault> Norm(const Instruction& instruction);
  std::optional<Fault> Validate(const Instruction& instruction);
  // V2 if the instruction may not run between an update and its validation.
  std::optional<Fault> CheckSpeculation(const Instruction& instruction) const;
  // V6 unless what the update waits for has been begun.
  std::optional<Fault> CheckUpdate(const Instruction& instruction) const;
  std::optional<Fault> CheckMemory() const;
  bool IsTied(StageId stage) const;

  const ScheduleShape& shape_;
  WeightPolicy policy_;
  const std::vector<StageMemory>& memory_;
  std::vector<StageRules> stages_;  // by chunk
  bool tied_ = false;               // any of them
  int64_t ties_ = 0, norms_ = 0;    // begun
  int64_t validated_ = 0;           // updates
  bool speculating_ = false;        // update `validated_` has been made
};

}  // namespace pipedream
