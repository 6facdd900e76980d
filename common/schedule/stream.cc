#include "common/schedule/stream.h"

#include <cstdlib>

namespace pipedream {

std::vector<InstructionStream> StreamsOf(const ScheduleTable& table) {
  std::vector<InstructionStream> streams;
  for (const auto& row : table.programs) streams.emplace_back(std::span<const Instruction>(row));
  return streams;
}

std::vector<InstructionStream> StreamsOf(const std::vector<StageProgram>& programs) {
  std::vector<InstructionStream> streams;
  for (const StageProgram& program : programs) streams.emplace_back(program);
  return streams;
}

std::vector<Peer> WorkersOf(const ScheduleShape& shape) {
  std::vector<Peer> workers;
  for (int s = 0; s < shape.stages(); ++s) {
    for (int q = 0; q < shape.replicas[s]; ++q) workers.push_back({StageId(s), ReplicaId(q)});
  }
  return workers;
}

ChannelIndex::ChannelIndex(const ScheduleShape& shape) : replicas_(shape.replicas) {
  for (size_t s = 0; s + 1 < replicas_.size(); ++s) {
    base_.push_back(size_);
    size_ += 2 * replicas_[s] * replicas_[s + 1];
  }
}

int ChannelIndex::Of(const Peer& from, const Peer& to) const {
  const bool forward = from.stage < to.stage;
  const Peer& low = forward ? from : to;
  const Peer& high = forward ? to : from;
  int s = low.stage.value();
  int pair = low.replica.value() * replicas_[s + 1] + high.replica.value();
  return base_[s] + 2 * pair + (forward ? 0 : 1);
}

bool ChannelIndex::AreNeighbours(const Peer& worker, const Peer& peer) const {
  int s = peer.stage.value();
  return std::abs(s - worker.stage.value()) == 1 && s >= 0 &&
         s < static_cast<int>(replicas_.size()) && peer.replica.value() >= 0 &&
         peer.replica.value() < replicas_[s];
}

}  // namespace pipedream
