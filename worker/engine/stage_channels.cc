#include "worker/engine/stage_channels.h"

namespace pipedream {

StagePeers PeersOf(const StageProgram& program) {
  StagePeers peers;
  for (const ProgramBlock& block : program.blocks) {
    for (const Instruction& instruction : block.body) {
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

}  // namespace pipedream
