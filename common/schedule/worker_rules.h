// The rules that concern one worker alone (see validate.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/schedule/residency.h"
#include "common/schedule/schedule_table.h"
#include "common/schedule/validate.h"

namespace pipedream {

struct Fault {
  std::string_view rule;  // "V3"
  std::string text;
};

// Follows one worker's program, instruction by instruction.
class WorkerRules {
 public:
  // Borrows shape and memory (may be null). REQUIRES: the worker exists.
  WorkerRules(const ScheduleShape& shape, WeightPolicy policy, Peer worker,
              const StageMemory* memory);

  // The fault of running `instruction` next, if it is one.
  std::optional<Fault> Apply(const Instruction& instruction);
  // The fault of ending here.
  std::optional<Fault> Finish() const;
  const Residency& residency() const { return residency_; }

 private:
  struct InFlight {
    MicrobatchId microbatch;
    WeightVersion version;
    int32_t slot = kNoSlot;
    bool input_done = false;  // I has run, W has not
  };
  using Numbers = std::vector<int64_t>;

  std::optional<Fault> Forward(const Instruction& instruction);
  std::optional<Fault> CheckForwardVersion(const Instruction& instruction) const;
  std::optional<Fault> Backward(const Instruction& instruction);
  std::optional<Fault> Evaluate(const Instruction& instruction);
  std::optional<Fault> Step(const Instruction& instruction);
  std::optional<Fault> JoinCollective(const Instruction& instruction);
  std::optional<Fault> Pin(const Instruction& instruction);
  std::optional<Fault> Send(const Instruction& instruction);
  std::optional<Fault> Receive(const Instruction& instruction);
  std::optional<Fault> CheckMemory() const;

  bool first() const { return worker_.stage.value() == 0; }
  bool last() const { return worker_.stage.value() + 1 == shape_.stages(); }
  int64_t replicas() const { return shape_.replicas[worker_.stage.value()]; }
  // How many of the numbers 0 .. end-1 belong to this replica.
  int64_t OwnBelow(int64_t end) const;
  // V1 unless `number` is in 0 .. total-1 and this replica's.
  std::optional<Fault> CheckOwn(const Instruction& instruction, int64_t total) const;
  // Backwards that the next update needs of this replica.
  int64_t BackwardsDue() const;

  const ScheduleShape& shape_;
  WeightPolicy policy_;
  Peer worker_;
  const StageMemory* memory_;

  Residency residency_;
  std::vector<bool> forward_done_, backward_done_, evaluated_;  // by round, i / r
  std::vector<InFlight> in_flight_;
  int64_t updates_ = 0;
  int64_t update_backwards_ = 0;  // since the last update
  bool reduced_ = false, normed_ = false;
  std::vector<WeightVersion> pins_;
  // Messages received and not yet used, and results not yet sent; by kind.
  Numbers activations_in_, gradients_in_, evaluations_in_;
  Numbers activations_out_, gradients_out_, evaluations_out_;
};

}  // namespace pipedream
