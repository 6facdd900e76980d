#include "common/schedule/stage_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pipedream {
namespace {

template <typename... Args>
Fault MakeFault(std::string_view rule, fmt::format_string<Args...> format, Args&&... args) {
  return Fault{rule, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace

StageRules::StageRules(const ScheduleShape& shape, WeightPolicy policy, const Peer& at)
    : shape_(shape), policy_(policy), at_(at), residency_(shape, policy, at.stage) {
  for (const ScheduleEdge& edge : EdgesOf(shape)) {
    if (edge.to == at.stage.value()) {
      activation_from_.push_back(edge.from);
      if (edge.gradient) gradient_to_.push_back(edge.from);
    }
    if (edge.from == at.stage.value()) {
      activation_to_.push_back(edge.to);
      if (edge.gradient) gradient_from_.push_back(edge.to);
    }
  }
  forward_done_.resize(OwnBelow(shape.microbatches()));
  backward_done_.resize(forward_done_.size());
  evaluated_.resize(OwnBelow(shape.evaluation_microbatches * shape.epochs));
  if (replicas() == 1) Complete();
}

std::optional<int> StageRules::TakeAll(Messages& in, int64_t number,
                                       const std::vector<int>& stages) {
  for (int stage : stages) {
    auto found = std::find(in.begin(), in.end(), std::pair(number, stage));
    if (found == in.end()) return stage;
    in.erase(found);
  }
  return std::nullopt;
}

void StageRules::AddAll(Messages& out, int64_t number, const std::vector<int>& stages) {
  for (int stage : stages) out.emplace_back(number, stage);
}

std::optional<Fault> StageRules::Apply(const Instruction& instruction) {
  std::optional<Fault> fault;
  switch (instruction.op) {
    case Op::kForward:
      fault = Forward(instruction);
      break;
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
      fault = Backward(instruction);
      break;
    case Op::kEvaluate:
      fault = Evaluate(instruction);
      break;
    case Op::kStep:
      fault = Step(instruction);
      break;
    case Op::kReduce:
      fault = Reduce(instruction);
      break;
    case Op::kPin:
    case Op::kUnpin:
      fault = Pin(instruction);
      break;
    case Op::kTie:
    case Op::kNorm:
    case Op::kValidate:
      break;
    default:
      fault = IsSend(instruction.op) ? Send(instruction) : Receive(instruction);
      break;
  }
  if (!fault) residency_.Apply(instruction);
  return fault;
}

int64_t StageRules::OwnBelow(int64_t end) const {
  return end <= at_.replica.value() ? 0 : (end - 1 - at_.replica.value()) / replicas() + 1;
}

std::optional<Fault> StageRules::CheckOwn(const Instruction& instruction, int64_t total) const {
  int64_t number = instruction.microbatch.value();
  if (number < 0 || number >= total) {
    return MakeFault("V1", "{} is none of the run's {} microbatches", Format(instruction), total);
  }
  if (number % replicas() != at_.replica.value()) {
    return MakeFault("V1", "{} belongs to replica {} ({} mod {})", Format(instruction),
                     number % replicas(), number, replicas());
  }
  return std::nullopt;
}

std::optional<Fault> StageRules::Forward(const Instruction& instruction) {
  if (auto fault = CheckOwn(instruction, shape_.microbatches())) return fault;
  int64_t i = instruction.microbatch.value();
  if (forward_done_[i / replicas()]) {
    return MakeFault("V1", "{} is the second F of microbatch {}", Format(instruction), i);
  }
  if (auto missing = TakeAll(activations_in_, i, activation_from_)) {
    return MakeFault("V2", "{} has no RA{} from stage {} before it", Format(instruction), i,
                     *missing);
  }
  if (auto fault = CheckForwardVersion(instruction)) return fault;
  if (instruction.slot < 0) return MakeFault("V7", "{} has no slot", Format(instruction));
  for (const InFlight& other : in_flight_) {
    if (other.slot == instruction.slot) {
      return MakeFault("V7", "{} overwrites slot {}, which microbatch {} still needs",
                       Format(instruction), instruction.slot, other.microbatch);
    }
  }
  forward_done_[i / replicas()] = true;
  in_flight_.push_back({instruction.microbatch, instruction.version, instruction.slot});
  AddAll(activations_out_, i, activation_to_);
  return std::nullopt;
}

std::optional<Fault> StageRules::CheckForwardVersion(const Instruction& instruction) const {
  WeightVersion version = instruction.version;
  if (!residency_.Alive(version)) {
    return MakeFault("V4", "{} reads version {}, which is not alive (the newest is {})",
                     Format(instruction), version, residency_.latest());
  }
  const std::optional<WeightVersion> expected =
      ForwardVersion(shape_, policy_, at_.stage, instruction.microbatch);
  if (expected && version != *expected) {
    return MakeFault("V3", "{} must read version {}, by the rule of '{}'", Format(instruction),
                     *expected, PolicyName(policy_));
  }
  if (!expected && version != residency_.latest()) {
    return MakeFault("V3", "{} must read the newest version, {}", Format(instruction),
                     residency_.latest());
  }
  const int64_t due = UpdateOf(shape_, policy_, at_.stage, instruction.microbatch);
  const int64_t bound = StalenessBound(shape_, policy_, at_.stage);
  if (due - version.value() <= bound) return std::nullopt;
  return MakeFault("V10", "microbatch {} reads version {}: {} updates stale, the bound is {}",
                   instruction.microbatch, version, due - version.value(), bound);
}

std::optional<Fault> StageRules::Backward(const Instruction& instruction) {
  if (auto fault = CheckOwn(instruction, shape_.microbatches())) return fault;
  int64_t i = instruction.microbatch.value();
  if (backward_done_[i / replicas()]) {
    return MakeFault("V1", "{} is the second backward of microbatch {}", Format(instruction), i);
  }
  auto entry = std::find_if(in_flight_.begin(), in_flight_.end(), [&](const InFlight& other) {
    return other.microbatch == instruction.microbatch;
  });
  if (entry == in_flight_.end()) {
    return MakeFault("V2", "{} has no F{} before it", Format(instruction), i);
  }
  const bool kept = BackwardReadsForwardVersion(policy_);
  const WeightVersion expected = kept ? entry->version : residency_.latest();
  if (instruction.version != expected) {
    return MakeFault("V3", "{} must read version {}, {}", Format(instruction), expected,
                     kept ? "as its F did" : "the newest");
  }
  if (instruction.slot != entry->slot) {
    return MakeFault("V7", "{} must read slot {}, which its F wrote", Format(instruction),
                     entry->slot);
  }
  const bool second_half = instruction.op == Op::kBackwardWeight;
  if (second_half != entry->input_done) {
    return second_half ? MakeFault("V2", "{} has no I{} before it", Format(instruction), i)
                       : MakeFault("V1", "{} follows I{}", Format(instruction), i);
  }
  if (!second_half) {
    if (auto missing = TakeAll(gradients_in_, i, gradient_from_)) {
      return MakeFault("V2", "{} has no RG{} from stage {} before it", Format(instruction), i,
                       *missing);
    }
    AddAll(gradients_out_, i, gradient_to_);
  }
  if (instruction.op == Op::kBackwardInput) {
    entry->input_done = true;
    return std::nullopt;
  }
  if (auto fault = CountBackward(instruction)) return fault;
  backward_done_[i / replicas()] = true;
  in_flight_.erase(entry);
  return std::nullopt;
}

// Gradients are summed update by update. Only 2BW begins the next sum while an update waits.
std::optional<Fault> StageRules::CountBackward(const Instruction& instruction) {
  const int64_t update = UpdateOf(shape_, policy_, at_.stage, instruction.microbatch);
  if (update != complete_) {
    return MakeFault("V2", "{} belongs to update {}, but update {} comes next", Format(instruction),
                     update, complete_);
  }
  const int64_t ahead = policy_ == WeightPolicy::kDoubleBuffer ? 1 : 0;
  if (update > updates_ + ahead) {
    return MakeFault("V2", "{} belongs to update {}, but update {} has not been made",
                     Format(instruction), update, updates_);
  }
  ++backwards_;
  if (replicas() == 1) Complete();
  return std::nullopt;
}

void StageRules::Complete() {
  const int64_t updates = UpdateCount(shape_, policy_, at_.stage);
  while (complete_ < updates && backwards_ == BackwardsDue(complete_)) {
    ++complete_;
    backwards_ = 0;
    if (replicas() > 1) return;
  }
}

std::optional<Fault> StageRules::Evaluate(const Instruction& instruction) {
  int64_t total = shape_.evaluation_microbatches * shape_.epochs;
  if (auto fault = CheckOwn(instruction, total)) return fault;
  int64_t j = instruction.microbatch.value();
  if (evaluated_[j / replicas()]) {
    return MakeFault("V1", "{} is the second E of evaluation microbatch {}", Format(instruction),
                     j);
  }
  if (auto missing = TakeAll(evaluations_in_, j, activation_from_)) {
    return MakeFault("V2", "{} has no RE{} from stage {} before it", Format(instruction), j,
                     *missing);
  }
  int64_t epoch = j / shape_.evaluation_microbatches;
  WeightVersion expected = EvaluationVersion(shape_, policy_, at_.stage, epoch);
  if (instruction.version != expected) {
    return MakeFault("V3", "{} must read version {}, the weights after epoch {}",
                     Format(instruction), expected, epoch);
  }
  if (!residency_.Alive(expected)) {
    return MakeFault("V4", "{} reads version {}, which is not alive (the newest is {})",
                     Format(instruction), expected, residency_.latest());
  }
  evaluated_[j / replicas()] = true;
  AddAll(evaluations_out_, j, activation_to_);
  return std::nullopt;
}

int64_t StageRules::BackwardsDue(int64_t update) const {
  const int64_t span = UpdateSpan(shape_, policy_, at_.stage);
  const int64_t end = std::min((update + 1) * span, shape_.microbatches());
  return OwnBelow(end) - OwnBelow(update * span);
}

std::optional<Fault> StageRules::Step(const Instruction& instruction) {
  int64_t u = instruction.microbatch.value();
  if (u != updates_ || instruction.version.value() != updates_ + 1) {
    return MakeFault("V4", "{} comes where U{}->v{} is due", Format(instruction), updates_,
                     updates_ + 1);
  }
  if (u >= UpdateCount(shape_, policy_, at_.stage)) {
    return MakeFault("V1", "{} is none of the stage's {} updates", Format(instruction),
                     UpdateCount(shape_, policy_, at_.stage));
  }
  if (u >= complete_) {
    if (backwards_ != BackwardsDue(complete_)) {
      return MakeFault("V2", "{} comes after {} of the {} backwards that it covers",
                       Format(instruction), backwards_, BackwardsDue(complete_));
    }
    return MakeFault("V6", "{} has no R{} before it", Format(instruction), u);
  }
  ++updates_;
  return std::nullopt;
}

std::optional<Fault> StageRules::Reduce(const Instruction& instruction) {
  if (instruction.microbatch.value() != complete_) {
    return MakeFault("V6", "{} comes where R{} is due", Format(instruction), complete_);
  }
  if (replicas() == 1) {
    return MakeFault("V6", "{} has nothing to add up in this run", Format(instruction));
  }
  if (complete_ >= UpdateCount(shape_, policy_, at_.stage)) {
    return MakeFault("V6", "{} comes after the last update", Format(instruction));
  }
  if (backwards_ != BackwardsDue(complete_)) {
    return MakeFault("V2", "{} comes after {} of the {} backwards that it covers",
                     Format(instruction), backwards_, BackwardsDue(complete_));
  }
  Complete();
  return std::nullopt;
}

std::optional<Fault> StageRules::Pin(const Instruction& instruction) {
  if (instruction.op == Op::kPin) {
    if (!residency_.Alive(instruction.version)) {
      return MakeFault("V4", "{} keeps a version that is not alive", Format(instruction));
    }
    pins_.push_back(instruction.version);
    return std::nullopt;
  }
  auto pin = std::find(pins_.begin(), pins_.end(), instruction.version);
  if (pin == pins_.end()) {
    return MakeFault("V4", "{} has no P before it", Format(instruction));
  }
  pins_.erase(pin);
  return std::nullopt;
}

std::optional<Fault> StageRules::Send(const Instruction& instruction) {
  Messages& out = instruction.op == Op::kSendGradient     ? gradients_out_
                  : instruction.op == Op::kSendActivation ? activations_out_
                                                          : evaluations_out_;
  const int64_t number = instruction.microbatch.value();
  const int stage = instruction.peer.stage.value();
  auto found = std::find(out.begin(), out.end(), std::pair(number, stage));
  if (found == out.end()) {
    return MakeFault("V2", "{} sends what has not been computed, or not for that stage",
                     Format(instruction));
  }
  out.erase(found);
  const ReplicaId expected = ReplicaOf(shape_, instruction.peer.stage, instruction.microbatch);
  if (instruction.peer.replica == expected) return std::nullopt;
  return MakeFault("V5", "{} must go to {}.{}", Format(instruction), stage, expected);
}

std::optional<Fault> StageRules::Receive(const Instruction& instruction) {
  const bool gradient = instruction.op == Op::kReceiveGradient;
  const std::vector<int>& from = gradient ? gradient_from_ : activation_from_;
  const int stage = instruction.peer.stage.value();
  if (std::find(from.begin(), from.end(), stage) == from.end()) {
    return MakeFault("V5", "{} has no edge to come along", Format(instruction));
  }
  if (instruction.microbatch.value() < 0) {
    return MakeFault("V1", "{} has no microbatch", Format(instruction));
  }
  const ReplicaId expected = ReplicaOf(shape_, instruction.peer.stage, instruction.microbatch);
  if (instruction.peer.replica != expected) {
    return MakeFault("V5", "{} must come from {}.{}", Format(instruction), stage, expected);
  }
  Messages& in = gradient                                   ? gradients_in_
                 : instruction.op == Op::kReceiveActivation ? activations_in_
                                                            : evaluations_in_;
  in.emplace_back(instruction.microbatch.value(), stage);
  return std::nullopt;
}

std::optional<Fault> StageRules::Finish() const {
  auto missing = [&](const std::vector<bool>& done, std::string_view what) -> std::optional<Fault> {
    auto hole = std::find(done.begin(), done.end(), false);
    if (hole == done.end()) return std::nullopt;
    return MakeFault("V1", "{}{} of stage {} is missing", what,
                     (hole - done.begin()) * replicas() + at_.replica.value(), at_.stage);
  };
  if (auto fault = missing(forward_done_, "F")) return fault;
  if (!in_flight_.empty()) {
    return MakeFault("V7", "slot {} is never freed: microbatch {} has no backward",
                     in_flight_.front().slot, in_flight_.front().microbatch);
  }
  if (auto fault = missing(backward_done_, "B")) return fault;
  if (auto fault = missing(evaluated_, "E")) return fault;
  int64_t updates = UpdateCount(shape_, policy_, at_.stage);
  if (updates_ != updates) {
    return MakeFault("V1", "U{} of stage {} is missing", updates_, at_.stage);
  }
  if (!pins_.empty()) return MakeFault("V4", "version {} is pinned for ever", pins_.front());
  auto left = [](const Messages& messages, std::string_view what) -> std::optional<Fault> {
    if (messages.empty()) return std::nullopt;
    return MakeFault("V5", "{} of microbatch {}", what, messages.front().first);
  };
  if (auto fault = left(activations_in_, "nothing uses the received activation")) return fault;
  if (auto fault = left(gradients_in_, "nothing uses the received gradient")) return fault;
  if (auto fault = left(evaluations_in_, "nothing uses the received evaluation")) return fault;
  if (auto fault = left(activations_out_, "nothing sends the activation")) return fault;
  if (auto fault = left(gradients_out_, "nothing sends the gradient")) return fault;
  return left(evaluations_out_, "nothing sends the evaluation");
}

}  // namespace pipedream
