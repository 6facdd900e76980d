#include "common/schedule/builders/builders.h"

namespace pipedream {

void AppendEvaluation(const ScheduleShape& shape, StageId stage, ReplicaId replica, int64_t epoch,
                      std::vector<Instruction>& program) {
  int64_t first = epoch * shape.evaluation_microbatches;
  for (int64_t j = first; j < first + shape.evaluation_microbatches; ++j) {
    if (ReplicaOf(shape, stage, MicrobatchId(j)) == replica) {
      program.push_back({.op = Op::kEvaluate, .microbatch = MicrobatchId(j)});
    }
  }
}

}  // namespace pipedream
