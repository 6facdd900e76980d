#include <algorithm>

#include "common/schedule/builders/builders.h"

namespace pipedream {

absl::Status CheckFlush(const ScheduleShape& shape) { return Validate(shape); }

std::vector<Instruction> EmitFlush(const ScheduleShape& shape, StageId stage, ReplicaId replica,
                                   int64_t depth) {
  const int64_t m = shape.microbatches_per_minibatch;
  const int64_t r = shape.replicas[stage.value()];
  std::vector<Instruction> program;
  program.reserve(2 * (shape.microbatches() / r + 1) + shape.minibatches());
  for (int64_t t = 0; t < shape.minibatches(); ++t) {
    // The first microbatch of the minibatch that is congruent to the replica modulo r.
    int64_t first = t * m + ((replica.value() - t * m) % r + r) % r;
    int64_t count = first < (t + 1) * m ? ((t + 1) * m - 1 - first) / r + 1 : 0;
    int64_t ahead = std::min(depth, count);
    for (int64_t k = 0; k < count + ahead; ++k) {
      if (k < count) {
        program.push_back({.op = Op::kForward, .microbatch = MicrobatchId(first + k * r)});
      }
      if (k >= ahead) {
        program.push_back(
            {.op = Op::kBackward, .microbatch = MicrobatchId(first + (k - ahead) * r)});
      }
    }
    program.push_back({.op = Op::kStep, .microbatch = MicrobatchId(t)});
    if ((t + 1) % shape.minibatches_per_epoch == 0) {
      AppendEvaluation(shape, stage, replica, t / shape.minibatches_per_epoch, program);
    }
  }
  return program;
}

}  // namespace pipedream
