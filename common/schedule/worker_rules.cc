#include "common/schedule/worker_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pipedream {
namespace {

template <typename... Args>
Fault MakeFault(std::string_view rule, fmt::format_string<Args...> format, Args&&... args) {
  return Fault{rule, fmt::format(format, std::forward<Args>(args)...)};
}

bool Take(std::vector<int64_t>& numbers, int64_t number) {
  auto found = std::find(numbers.begin(), numbers.end(), number);
  if (found == numbers.end()) return false;
  numbers.erase(found);
  return true;
}

}  // namespace

WorkerRules::WorkerRules(const ScheduleShape& shape, WeightPolicy policy, Peer worker,
                         const StageMemory* memory)
    : shape_(shape), policy_(policy), worker_(worker), memory_(memory) {
  forward_done_.resize(OwnBelow(shape.microbatches()));
  backward_done_.resize(forward_done_.size());
  evaluated_.resize(OwnBelow(shape.evaluation_microbatches * shape.epochs));
}

std::optional<Fault> WorkerRules::Apply(const Instruction& instruction) {
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
    case Op::kNorm:
      fault = JoinCollective(instruction);
      break;
    case Op::kPin:
    case Op::kUnpin:
      fault = Pin(instruction);
      break;
    default:
      fault = IsSend(instruction.op) ? Send(instruction) : Receive(instruction);
      break;
  }
  if (fault) return fault;
  residency_.Apply(instruction);
  return memory_ == nullptr ? std::nullopt : CheckMemory();
}

int64_t WorkerRules::OwnBelow(int64_t end) const {
  return end <= worker_.replica.value() ? 0 : (end - 1 - worker_.replica.value()) / replicas() + 1;
}

std::optional<Fault> WorkerRules::CheckOwn(const Instruction& instruction, int64_t total) const {
  int64_t number = instruction.microbatch.value();
  if (number < 0 || number >= total) {
    return MakeFault("V1", "{} is none of the run's {} microbatches", Format(instruction), total);
  }
  if (number % replicas() != worker_.replica.value()) {
    return MakeFault("V1", "{} belongs to replica {} ({} mod {})", Format(instruction),
                     number % replicas(), number, replicas());
  }
  return std::nullopt;
}

std::optional<Fault> WorkerRules::Forward(const Instruction& instruction) {
  if (auto fault = CheckOwn(instruction, shape_.microbatches())) return fault;
  int64_t i = instruction.microbatch.value();
  if (forward_done_[i / replicas()]) {
    return MakeFault("V1", "{} is the second F of microbatch {}", Format(instruction), i);
  }
  if (!first() && !Take(activations_in_, i)) {
    return MakeFault("V2", "{} has no RA{} before it", Format(instruction), i);
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
  if (!last()) activations_out_.push_back(i);
  return std::nullopt;
}

std::optional<Fault> WorkerRules::CheckForwardVersion(const Instruction& instruction) const {
  WeightVersion version = instruction.version;
  if (!residency_.Alive(version)) {
    return MakeFault("V4", "{} reads version {}, which is not alive (the newest is {})",
                     Format(instruction), version, residency_.latest());
  }
  int64_t i = instruction.microbatch.value();
  int64_t due = UpdateOf(shape_, policy_, worker_.stage, instruction.microbatch);
  if (policy_ == WeightPolicy::kFlush) {
    if (version.value() == due) return std::nullopt;
    return MakeFault("V3", "{} is in minibatch {} and must read version {}", Format(instruction),
                     due, due);
  }
  if (version != residency_.latest()) {
    return MakeFault("V3", "{} must read the newest version, {}", Format(instruction),
                     residency_.latest());
  }
  int depth = WarmupDepth(shape_, worker_.stage);
  if (due - version.value() > depth) {
    return MakeFault("V10", "microbatch {} reads version {}: {} updates stale, the bound is {}", i,
                     version, due - version.value(), depth);
  }
  return std::nullopt;
}

std::optional<Fault> WorkerRules::Backward(const Instruction& instruction) {
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
  if (instruction.version != entry->version) {
    return MakeFault("V3", "{} must read version {}, as its F did", Format(instruction),
                     entry->version);
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
  if (!second_half && !last() && !Take(gradients_in_, i)) {
    return MakeFault("V2", "{} has no RG{} before it", Format(instruction), i);
  }
  if (!second_half && !first()) gradients_out_.push_back(i);
  if (instruction.op == Op::kBackwardInput) {
    entry->input_done = true;
    return std::nullopt;
  }
  int64_t update = UpdateOf(shape_, policy_, worker_.stage, instruction.microbatch);
  if (update != updates_) {
    return MakeFault("V2", "{} belongs to update {}, but update {} comes next", Format(instruction),
                     update, updates_);
  }
  ++update_backwards_;
  backward_done_[i / replicas()] = true;
  in_flight_.erase(entry);
  return std::nullopt;
}

std::optional<Fault> WorkerRules::Evaluate(const Instruction& instruction) {
  int64_t total = shape_.evaluation_microbatches * shape_.epochs;
  if (auto fault = CheckOwn(instruction, total)) return fault;
  int64_t j = instruction.microbatch.value();
  if (evaluated_[j / replicas()]) {
    return MakeFault("V1", "{} is the second E of evaluation microbatch {}", Format(instruction),
                     j);
  }
  if (!first() && !Take(evaluations_in_, j)) {
    return MakeFault("V2", "{} has no RE{} before it", Format(instruction), j);
  }
  int64_t epoch = j / shape_.evaluation_microbatches;
  WeightVersion expected = EvaluationVersion(shape_, policy_, worker_.stage, epoch);
  if (instruction.version != expected) {
    return MakeFault("V3", "{} must read version {}, the weights after epoch {}",
                     Format(instruction), expected, epoch);
  }
  if (!residency_.Alive(expected)) {
    return MakeFault("V4", "{} reads version {}, which is not alive (the newest is {})",
                     Format(instruction), expected, residency_.latest());
  }
  evaluated_[j / replicas()] = true;
  if (!last()) evaluations_out_.push_back(j);
  return std::nullopt;
}

int64_t WorkerRules::BackwardsDue() const {
  int64_t span = policy_ == WeightPolicy::kFlush ? shape_.microbatches_per_minibatch : replicas();
  int64_t end = std::min((updates_ + 1) * span, shape_.microbatches());
  return OwnBelow(end) - OwnBelow(updates_ * span);
}

std::optional<Fault> WorkerRules::Step(const Instruction& instruction) {
  int64_t u = instruction.microbatch.value();
  if (u != updates_ || instruction.version.value() != updates_ + 1) {
    return MakeFault("V4", "{} comes where U{}->v{} is due", Format(instruction), updates_,
                     updates_ + 1);
  }
  if (u >= UpdateCount(shape_, policy_, worker_.stage)) {
    return MakeFault("V1", "{} is none of the stage's {} updates", Format(instruction),
                     UpdateCount(shape_, policy_, worker_.stage));
  }
  if (update_backwards_ != BackwardsDue()) {
    return MakeFault("V2", "{} comes after {} of the {} backwards that it covers",
                     Format(instruction), update_backwards_, BackwardsDue());
  }
  if (replicas() > 1 && !reduced_) {
    return MakeFault("V6", "{} has no R{} before it", Format(instruction), u);
  }
  if (shape_.global_norm && !normed_) {
    return MakeFault("V6", "{} has no N{} before it", Format(instruction), u);
  }
  ++updates_;
  update_backwards_ = 0;
  reduced_ = normed_ = false;
  return std::nullopt;
}

std::optional<Fault> WorkerRules::JoinCollective(const Instruction& instruction) {
  const bool reduce = instruction.op == Op::kReduce;
  bool& done = reduce ? reduced_ : normed_;
  if (instruction.microbatch.value() != updates_) {
    return MakeFault("V6", "{} comes where {}{} is due", Format(instruction),
                     Mnemonic(instruction.op), updates_);
  }
  if (done) return MakeFault("V6", "{} comes twice", Format(instruction));
  if (reduce ? replicas() == 1 : !shape_.global_norm) {
    return MakeFault("V6", "{} has nothing to add up in this run", Format(instruction));
  }
  if (!reduce && replicas() > 1 && !reduced_) {
    return MakeFault("V6", "{} has no R{} before it", Format(instruction), updates_);
  }
  if (update_backwards_ != BackwardsDue()) {
    return MakeFault("V2", "{} comes after {} of the {} backwards that it covers",
                     Format(instruction), update_backwards_, BackwardsDue());
  }
  done = true;
  return std::nullopt;
}

std::optional<Fault> WorkerRules::Pin(const Instruction& instruction) {
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

std::optional<Fault> WorkerRules::Send(const Instruction& instruction) {
  const bool gradient = instruction.op == Op::kSendGradient;
  Numbers& out = gradient                                ? gradients_out_
                 : instruction.op == Op::kSendActivation ? activations_out_
                                                         : evaluations_out_;
  if (!Take(out, instruction.microbatch.value())) {
    return MakeFault("V2", "{} sends what has not been computed", Format(instruction));
  }
  StageId stage = worker_.stage + (gradient ? -1 : 1);
  Peer expected{stage, ReplicaOf(shape_, stage, instruction.microbatch)};
  if (instruction.peer == expected) return std::nullopt;
  return MakeFault("V5", "{} must go to {}.{}", Format(instruction), expected.stage,
                   expected.replica);
}

std::optional<Fault> WorkerRules::Receive(const Instruction& instruction) {
  const bool gradient = instruction.op == Op::kReceiveGradient;
  if (gradient ? last() : first()) {
    return MakeFault("V5", "{} has no stage to come from", Format(instruction));
  }
  if (instruction.microbatch.value() < 0) {
    return MakeFault("V1", "{} has no microbatch", Format(instruction));
  }
  StageId stage = worker_.stage + (gradient ? 1 : -1);
  Peer expected{stage, ReplicaOf(shape_, stage, instruction.microbatch)};
  if (instruction.peer != expected) {
    return MakeFault("V5", "{} must come from {}.{}", Format(instruction), expected.stage,
                     expected.replica);
  }
  Numbers& in = gradient                                   ? gradients_in_
                : instruction.op == Op::kReceiveActivation ? activations_in_
                                                           : evaluations_in_;
  in.push_back(instruction.microbatch.value());
  return std::nullopt;
}

std::optional<Fault> WorkerRules::CheckMemory() const {
  int64_t bytes = memory_->fixed_bytes + residency_.versions() * memory_->version_bytes +
                  residency_.in_flight() * memory_->activation_bytes;
  if (bytes <= memory_->limit_bytes) return std::nullopt;
  return MakeFault(
      "V8",
      "{} bytes needed ({} weight versions of {}, {} activations of {}, {} fixed), the "
      "device has {}",
      bytes, residency_.versions(), memory_->version_bytes, residency_.in_flight(),
      memory_->activation_bytes, memory_->fixed_bytes, memory_->limit_bytes);
}

std::optional<Fault> WorkerRules::Finish() const {
  auto missing = [&](const std::vector<bool>& done, std::string_view what) -> std::optional<Fault> {
    auto hole = std::find(done.begin(), done.end(), false);
    if (hole == done.end()) return std::nullopt;
    return MakeFault("V1", "{}{} is missing", what,
                     (hole - done.begin()) * replicas() + worker_.replica.value());
  };
  if (auto fault = missing(forward_done_, "F")) return fault;
  if (!in_flight_.empty()) {
    return MakeFault("V7", "slot {} is never freed: microbatch {} has no backward",
                     in_flight_.front().slot, in_flight_.front().microbatch);
  }
  if (auto fault = missing(backward_done_, "B")) return fault;
  if (auto fault = missing(evaluated_, "E")) return fault;
  int64_t updates = UpdateCount(shape_, policy_, worker_.stage);
  if (updates_ != updates) return MakeFault("V1", "U{} is missing", updates_);
  if (!pins_.empty()) return MakeFault("V4", "version {} is pinned for ever", pins_.front());
  if (reduced_ || normed_) return MakeFault("V6", "a collective after the last update");
  auto left = [](const Numbers& numbers, std::string_view what) -> std::optional<Fault> {
    if (numbers.empty()) return std::nullopt;
    return MakeFault("V5", "{} of microbatch {}", what, numbers.front());
  };
  if (auto fault = left(activations_in_, "nothing uses the received activation")) return fault;
  if (auto fault = left(gradients_in_, "nothing uses the received gradient")) return fault;
  if (auto fault = left(evaluations_in_, "nothing uses the received evaluation")) return fault;
  if (auto fault = left(activations_out_, "nothing sends the activation")) return fault;
  if (auto fault = left(gradients_out_, "nothing sends the gradient")) return fault;
  return left(evaluations_out_, "nothing sends the evaluation");
}

}  // namespace pipedream
