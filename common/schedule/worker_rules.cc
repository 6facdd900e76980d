#include "common/schedule/worker_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipedream {

WorkerRules::WorkerRules(const ScheduleShape& shape, WeightPolicy policy, const Peer& worker,
                         const std::vector<StageMemory>& memory)
    : shape_(shape), policy_(policy), memory_(memory) {
  for (StageId stage : StagesOn(shape, DeviceOf(shape, worker.stage))) {
    stages_.emplace_back(shape, policy, Peer{stage, worker.replica});
    tied_ = tied_ || IsTied(stage);
  }
}

bool WorkerRules::IsTied(StageId stage) const {
  return std::binary_search(shape_.tied_stages.begin(), shape_.tied_stages.end(), stage.value());
}

std::optional<Fault> WorkerRules::Apply(const Instruction& instruction) {
  if (auto fault = CheckSpeculation(instruction)) return fault;
  if (instruction.op == Op::kValidate) return Validate(instruction);
  if (instruction.op == Op::kTie) return Tie(instruction);
  if (instruction.op == Op::kNorm) return Norm(instruction);
  if (instruction.chunk < 0 || instruction.chunk >= std::ssize(stages_)) {
    return Fault{"V1", fmt::format("{} is of no chunk, the worker has {}", Format(instruction),
                                   stages_.size())};
  }
  if (auto fault = stages_[instruction.chunk].Apply(instruction)) return fault;
  if (instruction.op == Op::kStep) {
    if (auto fault = CheckUpdate(instruction)) return fault;
    speculating_ = policy_ == WeightPolicy::kSpeculative && shape_.global_norm;
  }
  return memory_.empty() ? std::nullopt : CheckMemory();
}

std::optional<Fault> WorkerRules::CheckUpdate(const Instruction& instruction) const {
  const StageId stage = stages_[instruction.chunk].stage();
  const int64_t update = instruction.microbatch.value();
  if (IsTied(stage) && ties_ <= update) {
    return Fault{"V6", fmt::format("{} has no T{} before it", Format(instruction), update)};
  }
  if (!shape_.global_norm) return std::nullopt;
  const int64_t norm = NormOf(shape_, policy_, stage, update);
  if (norm == kNoNorm || norm < norms_) return std::nullopt;
  return Fault{"V6", fmt::format("{} has no N{} before it", Format(instruction), norm)};
}

std::optional<Fault> WorkerRules::Tie(const Instruction& instruction) {
  const int64_t number = instruction.microbatch.value();
  if (!tied_) {
    return Fault{"V6",
                 fmt::format("{}: the worker holds no shared parameter", Format(instruction))};
  }
  if (number != ties_) {
    return Fault{"V6", fmt::format("{} comes where T{} is due", Format(instruction), ties_)};
  }
  for (const StageRules& rules : stages_) {
    if (!IsTied(rules.stage()) || (rules.complete() > number && rules.updates() <= number)) {
      continue;
    }
    return Fault{"V2", fmt::format("{} comes where the gradient of update {} of stage {} is not "
                                   "complete, or gone",
                                   Format(instruction), number, rules.stage())};
  }
  ++ties_;
  return std::nullopt;
}

std::optional<Fault> WorkerRules::Norm(const Instruction& instruction) {
  const int64_t number = instruction.microbatch.value();
  if (!shape_.global_norm) {
    return Fault{"V6", fmt::format("{} has nothing to add up in this run", Format(instruction))};
  }
  if (number != norms_ || number >= NormCount(shape_, policy_)) {
    return Fault{"V6", fmt::format("{} comes where N{} of {} is due", Format(instruction), norms_,
                                   NormCount(shape_, policy_))};
  }
  for (const StageRules& rules : stages_) {
    const int64_t update = UpdateOfNorm(shape_, policy_, rules.stage(), number);
    if (rules.complete() <= update || rules.updates() > update) {
      return Fault{"V2", fmt::format("{} comes where the gradient of update {} of stage {} is not "
                                     "complete, or gone",
                                     Format(instruction), update, rules.stage())};
    }
    if (IsTied(rules.stage()) && ties_ <= update) {
      return Fault{"V6", fmt::format("{} has no T{} before it", Format(instruction), update)};
    }
  }
  ++norms_;
  return std::nullopt;
}

// Should an update not hold, what has run since is run again: that must be forwards alone.
std::optional<Fault> WorkerRules::CheckSpeculation(const Instruction& instruction) const {
  if (!speculating_) return std::nullopt;
  switch (instruction.op) {
    case Op::kForward:
    case Op::kSendActivation:
    case Op::kReceiveActivation:
    case Op::kStep:
    case Op::kPin:
    case Op::kValidate:
      return std::nullopt;
    default:
      return Fault{"V2", fmt::format("{} comes between update {} and its V{}", Format(instruction),
                                     validated_, validated_)};
  }
}

std::optional<Fault> WorkerRules::Validate(const Instruction& instruction) {
  const int64_t number = instruction.microbatch.value();
  if (!speculating_ || number != validated_) {
    return Fault{"V2",
                 fmt::format("{} validates no update that waits for it", Format(instruction))};
  }
  for (const StageRules& rules : stages_) {
    if (rules.updates() == number + 1) continue;
    return Fault{"V2", fmt::format("{} comes where stage {} has made {} updates",
                                   Format(instruction), rules.stage(), rules.updates())};
  }
  ++validated_;
  speculating_ = false;
  return std::nullopt;
}

std::optional<Fault> WorkerRules::CheckMemory() const {
  int64_t bytes = 0, limit = 0;
  std::string parts;
  for (const StageRules& rules : stages_) {
    const StageMemory& memory = memory_[rules.stage().value()];
    const Residency& held = rules.residency();
    bytes += memory.fixed_bytes + held.versions() * memory.version_bytes +
             held.in_flight() * memory.activation_bytes;
    limit = std::max(limit, memory.limit_bytes);
    parts += fmt::format("{}{} weight versions of {}, {} activations of {}, {} fixed",
                         parts.empty() ? "" : "; ", held.versions(), memory.version_bytes,
                         held.in_flight(), memory.activation_bytes, memory.fixed_bytes);
  }
  if (bytes <= limit) return std::nullopt;
  return Fault{"V8", fmt::format("{} bytes needed ({}), the device has {}", bytes, parts, limit)};
}

std::optional<Fault> WorkerRules::Finish() const {
  for (const StageRules& rules : stages_) {
    if (auto fault = rules.Finish()) return fault;
  }
  if (speculating_) return Fault{"V1", fmt::format("V{} is missing", validated_)};
  if (tied_ && ties_ != UpdateCount(shape_, policy_, stages_[0].stage())) {
    return Fault{"V6", fmt::format("T{} is missing", ties_)};
  }
  if (shape_.global_norm && norms_ != NormCount(shape_, policy_)) {
    return Fault{"V6", fmt::format("N{} is missing", norms_)};
  }
  return std::nullopt;
}

}  // namespace pipedream
