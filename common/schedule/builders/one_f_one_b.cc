#include "common/schedule/builders/builders.h"

namespace pipedream {

std::vector<Instruction> EmitOneForwardOneBackward(const ScheduleShape& shape, StageId stage,
                                                   ReplicaId replica) {
  return EmitFlush(shape, stage, replica, WarmupDepth(shape, stage));
}

}  // namespace pipedream
