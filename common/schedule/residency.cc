#include "common/schedule/residency.h"

#include <algorithm>
#include <utility>

namespace pipedream {

Residency::Residency(const ScheduleShape& shape, WeightPolicy policy, StageId stage)
    : shape_(shape), policy_(policy), stage_(stage) {
  Hold(WeightVersion(0));
}

void Residency::Apply(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kForward:
      in_flight_.emplace_back(instruction.microbatch, instruction.version);
      peak_in_flight_ = std::max(peak_in_flight_, in_flight());
      if (BackwardReadsForwardVersion(policy_)) Hold(instruction.version);
      break;
    case Op::kBackward:
    case Op::kBackwardWeight:
      peak_gradients_ =
          std::max(peak_gradients_,
                   static_cast<int>(UpdateOf(shape_, policy_, stage_, instruction.microbatch) -
                                    latest_.value()) +
                       1);
      Finish(instruction.microbatch);
      break;
    case Op::kStep:
      Hold(instruction.version);
      Drop(std::exchange(latest_, instruction.version));
      peak_versions_ = std::max(peak_versions_, versions());
      break;
    case Op::kPin:
      Hold(instruction.version);
      break;
    case Op::kUnpin:
      Drop(instruction.version);
      break;
    default:
      break;
  }
}

bool Residency::Alive(WeightVersion version) const {
  return std::any_of(alive_.begin(), alive_.end(),
                     [&](const auto& entry) { return entry.first == version; });
}

void Residency::Hold(WeightVersion version) {
  for (auto& [held, holders] : alive_) {
    if (held == version) {
      ++holders;
      return;
    }
  }
  alive_.emplace_back(version, 1);
}

void Residency::Drop(WeightVersion version) {
  for (auto entry = alive_.begin(); entry != alive_.end(); ++entry) {
    if (entry->first != version) continue;
    if (--entry->second == 0) alive_.erase(entry);
    return;
  }
}

void Residency::Finish(MicrobatchId microbatch) {
  for (auto entry = in_flight_.begin(); entry != in_flight_.end(); ++entry) {
    if (entry->first != microbatch) continue;
    if (BackwardReadsForwardVersion(policy_)) Drop(entry->second);
    in_flight_.erase(entry);
    return;
  }
}

}  // namespace pipedream
