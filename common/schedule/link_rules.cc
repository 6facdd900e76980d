#include "common/schedule/link_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipedream {
namespace {

// The receive that takes what this instruction sends.
Op ReceiveOf(Op send) {
  switch (send) {
    case Op::kSendActivation:
      return Op::kReceiveActivation;
    case Op::kSendGradient:
      return Op::kReceiveGradient;
    default:
      return Op::kReceiveEvaluation;
  }
}

}  // namespace

LinkRules::LinkRules(const ScheduleShape& shape, WeightPolicy policy, int channel_slots)
    : shape_(shape),
      policy_(policy),
      workers_(WorkersOf(shape)),
      index_(shape),
      channels_(index_.size()),
      groups_(shape.stages() + 2),
      arrived_(workers_.size()),
      ended_(workers_.size()) {
  for (size_t w = 0; w < workers_.size(); ++w) {
    const int worker = static_cast<int>(w);
    stages_.push_back(StagesOn(shape, DeviceOf(shape, workers_[w].stage)));
    bool tied = false;
    for (StageId stage : stages_[w]) {
      groups_[stage.value()].members.push_back(worker);
      tied = tied ||
             std::binary_search(shape.tied_stages.begin(), shape.tied_stages.end(), stage.value());
    }
    if (tied) groups_[shape.stages()].members.push_back(worker);
    groups_.back().members.push_back(worker);
  }
  for (Group& group : groups_) group.arrivals.resize(group.members.size());
  for (const ScheduleEdge& edge : EdgesOf(shape)) {
    for (int a = 0; a < shape.replicas[edge.from]; ++a) {
      for (int b = 0; b < shape.replicas[edge.to]; ++b) {
        const Peer low{StageId(edge.from), ReplicaId(a)}, high{StageId(edge.to), ReplicaId(b)};
        const int from = WorkerIndex(shape, low), to = WorkerIndex(shape, high);
        const size_t slots = ChannelSlots(channel_slots, low.stage, high.stage);
        channels_[index_.Of(low, high)] = {from, to, slots, {}};
        channels_[index_.Of(high, low)] = {to, from, slots, {}};
      }
    }
  }
}

Peer LinkRules::StageReplica(int worker, int chunk) const {
  return {stages_[worker][chunk], workers_[worker].replica};
}

LinkRules::Outcome LinkRules::Try(int worker, const Instruction& instruction) {
  const Op op = instruction.op;
  if (op == Op::kReduce && !arrived_[worker]) Arrive(worker, GroupOf(worker, instruction));
  arrived_[worker] = op == Op::kReduce;
  for (const Wait& wait : WaitsOf(worker, instruction)) {
    if (groups_[wait.group].Waits(wait.number)) return Outcome::kMustWait;
  }
  arrived_[worker] = false;
  if (op == Op::kTie || op == Op::kNorm) Arrive(worker, GroupOf(worker, instruction));
  if (!IsSend(op) && !IsReceive(op)) return Outcome::kDone;
  if (!index_.AreConnected(StageReplica(worker, instruction.chunk), instruction.peer)) {
    return Fail("V5", fmt::format("{} names no worker that an edge leads to", Format(instruction)));
  }
  return IsSend(op) ? TrySend(worker, instruction) : TryReceive(worker, instruction);
}

int LinkRules::GroupOf(int worker, const Instruction& instruction) const {
  if (instruction.op == Op::kNorm) return groups() - 1;
  if (instruction.op == Op::kTie) return shape_.stages();
  return stages_[worker][instruction.chunk].value();
}

std::vector<LinkRules::Wait> LinkRules::WaitsOf(int worker, const Instruction& instruction) const {
  std::vector<Wait> waits;
  const int64_t number = instruction.microbatch.value();
  const std::vector<int>& tied = shape_.tied_stages;
  const int ties = shape_.stages();
  if (instruction.op == Op::kReduce) {
    waits.push_back({GroupOf(worker, instruction), number});
  } else if (instruction.op == Op::kNorm && !tied.empty()) {
    const std::vector<StageId>& own = stages_[worker];
    if (std::find(own.begin(), own.end(), StageId(tied.front())) != own.end()) {
      waits.push_back({ties, number});
    }
  } else if (instruction.op == Op::kValidate) {
    waits.push_back({groups() - 1, number});
  } else if (instruction.op == Op::kStep) {
    const StageId stage = stages_[worker][instruction.chunk];
    if (std::binary_search(tied.begin(), tied.end(), stage.value()))
      waits.push_back({ties, number});
    const bool exact = shape_.global_norm && policy_ != WeightPolicy::kSpeculative;
    const int64_t norm = exact ? NormOf(shape_, policy_, stage, number) : kNoNorm;
    if (norm != kNoNorm) waits.push_back({groups() - 1, norm});
  }
  return waits;
}

// The members' programs name collectives in order, each once (WorkerRules), so counting suffices.
void LinkRules::Arrive(int worker, int number) {
  Group& group = groups_[number];
  for (size_t k = 0; k < group.members.size(); ++k) {
    if (group.members[k] == worker) ++group.arrivals[k];
  }
  const int64_t complete = *std::min_element(group.arrivals.begin(), group.arrivals.end());
  if (complete == group.complete) return;
  group.complete = complete;
  for (int member : group.members) {
    if (member != worker) woken_.push_back(member);
  }
}

LinkRules::Channel& LinkRules::ChannelOf(int worker, const Instruction& instruction) {
  const Peer self = StageReplica(worker, instruction.chunk);
  return channels_[IsSend(instruction.op) ? index_.Of(self, instruction.peer)
                                          : index_.Of(instruction.peer, self)];
}

LinkRules::Outcome LinkRules::TrySend(int worker, const Instruction& instruction) {
  Channel& channel = ChannelOf(worker, instruction);
  if (channel.messages.size() >= channel.slots) return Outcome::kMustWait;
  channel.messages.push_back(instruction);
  if (channel.messages.size() == 1) woken_.push_back(channel.to);
  return Outcome::kDone;
}

LinkRules::Outcome LinkRules::TryReceive(int worker, const Instruction& instruction) {
  Channel& channel = ChannelOf(worker, instruction);
  if (channel.messages.empty()) return Outcome::kMustWait;
  const Instruction& message = channel.messages.front();
  if (ReceiveOf(message.op) != instruction.op || message.microbatch != instruction.microbatch) {
    return Fail("V5", fmt::format("{} meets {}: the ends of the channel disagree about the order",
                                  Format(instruction), Format(message)));
  }
  if (channel.messages.size() == channel.slots) woken_.push_back(channel.from);
  channel.messages.pop_front();
  return Outcome::kDone;
}

LinkRules::Outcome LinkRules::Fail(std::string_view rule, std::string text) {
  fault_ = {rule, std::move(text)};
  return Outcome::kFault;
}

Fault LinkRules::Blocked(int worker, const Instruction& instruction) const {
  if (!IsSend(instruction.op) && !IsReceive(instruction.op)) {
    for (const Wait& wait : WaitsOf(worker, instruction)) {
      const Group& group = groups_[wait.group];
      for (size_t k = 0; k < group.members.size(); ++k) {
        const int member = group.members[k];
        if (!ended_[member] || group.arrivals[k] > wait.number) continue;
        return {"V6",
                fmt::format("{} waits for stage {} replica {}, whose program is over",
                            Format(instruction), workers_[member].stage, workers_[member].replica)};
      }
    }
    return {"V9", fmt::format("deadlock: {} waits for other members", Format(instruction))};
  }
  const Peer& peer = instruction.peer;
  if (ended_[WorkerIndex(shape_, peer)]) {
    return {"V5", fmt::format("{} has no counterpart: the program of {}.{} is over",
                              Format(instruction), peer.stage, peer.replica)};
  }
  const Channel& channel = const_cast<LinkRules*>(this)->ChannelOf(worker, instruction);
  return {"V9", IsSend(instruction.op)
                    ? fmt::format("deadlock: {} waits for one of the channel's {} slots",
                                  Format(instruction), channel.slots)
                    : fmt::format("deadlock: {} waits for its message", Format(instruction))};
}

std::optional<std::pair<int, Fault>> LinkRules::Finish() const {
  for (const Channel& channel : channels_) {
    if (channel.messages.empty()) continue;
    return std::make_pair(channel.from, Fault{"V5", fmt::format("{} is never received",
                                                                Format(channel.messages.front()))});
  }
  return std::nullopt;
}

}  // namespace pipedream
