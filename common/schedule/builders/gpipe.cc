#include "common/schedule/builders/builders.h"

namespace pipedream {

std::vector<Instruction> EmitGPipe(const ScheduleShape& shape, StageId stage, ReplicaId replica) {
  return EmitFlush(shape, stage, replica, shape.microbatches_per_minibatch);
}

}  // namespace pipedream
