// The rules that concern one stage replica alone (see validate.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/schedule/residency.h"
#include "common/schedule/schedule_table.h"

namespace pipedream {

struct Fault {
  std::string_view rule;  // "V3"
  std::string text;
};

// Follows the instructions of one chunk of a worker's program, in order.
class StageRules {
 public:
  // Borrows the shape. REQUIRES: the stage replica exists.
  StageRules(const ScheduleShape& shape, WeightPolicy policy, const Peer& at);

  // The fault of running `instruction` (none of T, N) next, if it is one.
  std::optional<Fault> Apply(const Instruction& instruction);
  // The fault of ending here.
  std::optional<Fault> Finish() const;

  const Residency& residency() const { return residency_; }
  StageId stage() const { return at_.stage; }
  // Updates made.
  int64_t updates() const { return updates_; }
  // Updates whose gradients are complete: all backwards done and, with replicas, reduced.
  int64_t complete() const { return complete_; }

 private:
  struct InFlight {
    MicrobatchId microbatch;
    WeightVersion version;
    int32_t slot = kNoSlot;
    bool input_done = false;  // I has run, W has not
  };
  // Microbatch and the stage at the other end of a message.
  using Messages = std::vector<std::pair<int64_t, int>>;

  std::optional<Fault> Forward(const Instruction& instruction);
  std::optional<Fault> CheckForwardVersion(const Instruction& instruction) const;
  std::optional<Fault> Backward(const Instruction& instruction);
  std::optional<Fault> CountBackward(const Instruction& instruction);
  std::optional<Fault> Evaluate(const Instruction& instruction);
  std::optional<Fault> Step(const Instruction& instruction);
  std::optional<Fault> Reduce(const Instruction& instruction);
  std::optional<Fault> Pin(const Instruction& instruction);
  std::optional<Fault> Send(const Instruction& instruction);
  std::optional<Fault> Receive(const Instruction& instruction);

  int64_t replicas() const { return shape_.replicas[at_.stage.value()]; }
  // How many of the numbers 0 .. end-1 belong to this replica.
  int64_t OwnBelow(int64_t end) const;
  // V1 unless `number` is in 0 .. total-1 and this replica's.
  std::optional<Fault> CheckOwn(const Instruction& instruction, int64_t total) const;
  // Backwards that an update needs of this replica.
  int64_t BackwardsDue(int64_t update) const;
  // Counts updates that need nothing more as complete.
  void Complete();
  // Takes a message of each of `stages`; the stage whose message is missing.
  static std::optional<int> TakeAll(Messages& in, int64_t number, const std::vector<int>& stages);
  static void AddAll(Messages& out, int64_t number, const std::vector<int>& stages);

  const ScheduleShape& shape_;
  WeightPolicy policy_;
  Peer at_;
  // Stages that activations come from and go to, and gradients likewise.
  std::vector<int> activation_from_, activation_to_, gradient_from_, gradient_to_;

  Residency residency_;
  std::vector<bool> forward_done_, backward_done_, evaluated_;  // by round, i / r
  std::vector<InFlight> in_flight_;
  int64_t updates_ = 0;
  int64_t complete_ = 0;
  int64_t backwards_ = 0;  // in update complete_
  std::vector<WeightVersion> pins_;
  // Messages received and not yet used, and results not yet sent; by kind.
  Messages activations_in_, gradients_in_, evaluations_in_;
  Messages activations_out_, gradients_out_, evaluations_out_;
};

}  // namespace pipedream
