#include "worker/engine/stage_channels.h"

#include <algorithm>

namespace pipedream {

StagePeers PeersOf(const StageProgram& program, int chunk) {
  StagePeers peers;
  for (const ProgramBlock& block : program.blocks) {
    for (const Instruction& instruction : block.body) {
      if (instruction.chunk != chunk) continue;
      switch (instruction.op) {
        case Op::kSendActivation:
        case Op::kSendEvaluation:
          peers.activation_to.insert(instruction.peer);
          break;
        case Op::kReceiveActivation:
        case Op::kReceiveEvaluation:
          peers.activation_from.insert(instruction.peer);
          break;
        case Op::kSendGradient:
          peers.gradient_to.insert(instruction.peer);
          break;
        case Op::kReceiveGradient:
          peers.gradient_from.insert(instruction.peer);
          break;
        default:
          break;
      }
    }
  }
  return peers;
}

std::vector<Peer> ReplicaGroup(const ScheduleShape& shape, StageId stage) {
  const StageId first = StagesOn(shape, DeviceOf(shape, stage)).front();
  std::vector<Peer> group;
  for (int r = 0; r < shape.replicas[first.value()]; ++r) group.push_back({first, ReplicaId(r)});
  return group;
}

std::vector<Peer> TieGroup(const ScheduleShape& shape) {
  std::vector<Peer> group;
  for (const Peer& worker : WorkersOf(shape)) {
    const std::vector<StageId> own = StagesOn(shape, DeviceOf(shape, worker.stage));
    const bool tied = std::ranges::any_of(own, [&](StageId stage) {
      return std::ranges::binary_search(shape.tied_stages, stage.value());
    });
    if (tied) group.push_back(worker);
  }
  return group;
}

std::vector<Peer> NormGroup(const ScheduleShape& shape) {
  return shape.global_norm ? WorkersOf(shape) : std::vector<Peer>();
}

}  // namespace pipedream
