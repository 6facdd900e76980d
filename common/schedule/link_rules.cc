#include "common/schedule/link_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

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

LinkRules::LinkRules(const ScheduleShape& shape, int channel_slots)
    : shape_(shape),
      channel_slots_(channel_slots),
      workers_(WorkersOf(shape)),
      index_(shape),
      channels_(index_.size()),
      groups_(shape.stages() + 1),
      waiting_since_(workers_.size()),
      ended_(workers_.size()) {
  for (size_t a = 0; a < workers_.size(); ++a) {
    groups_[workers_[a].stage.value()].members.push_back(static_cast<int>(a));
    groups_.back().members.push_back(static_cast<int>(a));
    for (size_t b = 0; b < workers_.size(); ++b) {
      if (!index_.AreNeighbours(workers_[a], workers_[b])) continue;
      Channel& channel = channels_[index_.Of(workers_[a], workers_[b])];
      channel.from = static_cast<int>(a);
      channel.to = static_cast<int>(b);
    }
  }
}

LinkRules::Outcome LinkRules::Try(int worker, const Instruction& instruction) {
  const Op op = instruction.op;
  if (op == Op::kReduce || op == Op::kNorm) return TryCollective(worker, instruction);
  if (!IsSend(op) && !IsReceive(op)) return Outcome::kDone;
  if (!index_.AreNeighbours(workers_[worker], instruction.peer)) {
    return Fail("V5", fmt::format("{} names no worker of a neighbour stage", Format(instruction)));
  }
  return IsSend(op) ? TrySend(worker, instruction) : TryReceive(worker, instruction);
}

LinkRules::Channel& LinkRules::ChannelOf(int worker, const Instruction& instruction) {
  return channels_[IsSend(instruction.op) ? index_.Of(workers_[worker], instruction.peer)
                                          : index_.Of(instruction.peer, workers_[worker])];
}

LinkRules::Outcome LinkRules::TrySend(int worker, const Instruction& instruction) {
  Channel& channel = ChannelOf(worker, instruction);
  if (channel.messages.size() >= channel_slots_) return Outcome::kMustWait;
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
  if (channel.messages.size() == channel_slots_) woken_.push_back(channel.from);
  channel.messages.pop_front();
  return Outcome::kDone;
}

const LinkRules::Group& LinkRules::GroupOf(int worker, const Instruction& instruction) const {
  return instruction.op == Op::kNorm ? groups_.back() : groups_[workers_[worker].stage.value()];
}

LinkRules::Outcome LinkRules::TryCollective(int worker, const Instruction& instruction) {
  Group& group = const_cast<Group&>(GroupOf(worker, instruction));
  int64_t& since = waiting_since_[worker];
  if (since != 0) {
    if (since == group.generation + 1) return Outcome::kMustWait;
    since = 0;
    return Outcome::kDone;
  }
  int64_t number = instruction.microbatch.value();
  if (group.arrived > 0 && group.number != number) {
    return Fail("V6", fmt::format("{} meets number {} of the other members", Format(instruction),
                                  group.number));
  }
  group.number = number;
  if (++group.arrived < static_cast<int64_t>(group.members.size())) {
    since = group.generation + 1;
    return Outcome::kMustWait;
  }
  group.arrived = 0;
  ++group.generation;
  for (int member : group.members) {
    if (member != worker) woken_.push_back(member);
  }
  return Outcome::kDone;
}

LinkRules::Outcome LinkRules::Fail(std::string_view rule, std::string text) {
  fault_ = {rule, std::move(text)};
  return Outcome::kFault;
}

Fault LinkRules::Blocked(int worker, const Instruction& instruction) const {
  if (instruction.op == Op::kReduce || instruction.op == Op::kNorm) {
    for (int member : GroupOf(worker, instruction).members) {
      if (!ended_[member]) continue;
      return {"V6",
              fmt::format("{} waits for stage {} replica {}, whose program is over",
                          Format(instruction), workers_[member].stage, workers_[member].replica)};
    }
    return {"V9", fmt::format("deadlock: {} waits for other members", Format(instruction))};
  }
  const Peer& peer = instruction.peer;
  if (ended_[WorkerOf(peer)]) {
    return {"V5", fmt::format("{} has no counterpart: the program of {}.{} is over",
                              Format(instruction), peer.stage, peer.replica)};
  }
  return {"V9", IsSend(instruction.op)
                    ? fmt::format("deadlock: {} waits for one of the channel's {} slots",
                                  Format(instruction), channel_slots_)
                    : fmt::format("deadlock: {} waits for its message", Format(instruction))};
}

int LinkRules::WorkerOf(const Peer& peer) const {
  return std::accumulate(shape_.replicas.begin(), shape_.replicas.begin() + peer.stage.value(),
                         peer.replica.value());
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
