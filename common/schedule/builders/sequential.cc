#include "common/schedule/builders/builders.h"

namespace pipedream {

std::vector<Instruction> EmitSequential(const ScheduleShape& shape, StageId stage,
                                        ReplicaId replica) {
  return EmitFlush(shape, stage, replica, 0);
}

}  // namespace pipedream
