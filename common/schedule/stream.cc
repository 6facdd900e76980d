#include "common/schedule/stream.h"

#include <algorithm>

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

ChannelIndex::ChannelIndex(const ScheduleShape& shape)
    : replicas_(shape.replicas), base_(replicas_.size() * replicas_.size(), -1) {
  for (const ScheduleEdge& edge : EdgesOf(shape)) {
    Base(edge.from, edge.to) = size_;
    size_ += 2 * replicas_[edge.from] * replicas_[edge.to];
  }
}

int ChannelIndex::Of(const Peer& from, const Peer& to) const {
  const bool forward = from.stage < to.stage;
  const Peer& low = forward ? from : to;
  const Peer& high = forward ? to : from;
  int pair = low.replica.value() * replicas_[high.stage.value()] + high.replica.value();
  return Base(low.stage.value(), high.stage.value()) + 2 * pair + (forward ? 0 : 1);
}

bool ChannelIndex::Exists(const Peer& peer) const {
  const int s = peer.stage.value();
  return s >= 0 && s < static_cast<int>(replicas_.size()) && peer.replica.value() >= 0 &&
         peer.replica.value() < replicas_[s];
}

bool ChannelIndex::AreConnected(const Peer& from, const Peer& to) const {
  return Exists(from) && Exists(to) &&
         Base(std::min(from.stage, to.stage).value(), std::max(from.stage, to.stage).value()) >= 0;
}

}  // namespace pipedream
