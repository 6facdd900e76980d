#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/passes/passes.h"

namespace pipedream {
namespace {

// Numbers forwards 0, 1, 2 ..., from 0 again when nothing is in flight.
class Numbering {
 public:
  // The number of the instruction's microbatch; kNoSlot for a backward without forward.
  int32_t Apply(const Instruction& instruction) {
    if (instruction.op == Op::kForward) {
      if (in_flight_.empty()) next_ = 0;
      in_flight_.emplace_back(instruction.microbatch, next_);
      // Slots next_ - span + 1 .. next_ are in use or passed over.
      span_ = std::max(span_, next_ - in_flight_.front().second + 1);
      return next_++;
    }
    auto entry = std::find_if(in_flight_.begin(), in_flight_.end(), [&](const auto& candidate) {
      return candidate.first == instruction.microbatch;
    });
    if (entry == in_flight_.end()) return kNoSlot;
    int32_t number = entry->second;
    if (instruction.op != Op::kBackwardInput) in_flight_.erase(entry);
    return number;
  }
  // So many slots keep all that were ever in flight together apart.
  int32_t span() const { return span_; }

 private:
  std::vector<std::pair<MicrobatchId, int32_t>> in_flight_;
  int32_t next_ = 0;
  int32_t span_ = 0;
};

bool TakesSlot(Op op) { return IsCompute(op) && op != Op::kEvaluate; }

}  // namespace

absl::StatusOr<Program> AssignSlots(const WorkerContext& worker, Program program) {
  std::vector<Numbering> numberings(worker.stages.size());
  for (Instruction& instruction : program) {
    if (!TakesSlot(instruction.op)) continue;
    instruction.slot = numberings[instruction.chunk].Apply(instruction);
    if (instruction.slot == kNoSlot) {
      return InvalidArgument("stage {} replica {}: {} has no forward before it",
                             worker.stages[instruction.chunk], worker.replica, Format(instruction));
    }
  }
  for (Instruction& instruction : program) {
    if (TakesSlot(instruction.op)) instruction.slot %= numberings[instruction.chunk].span();
  }
  return program;
}

}  // namespace pipedream
