#include <algorithm>
#include <tuple>

#include "common/schedule/builders/builders.h"

namespace pipedream {

void AppendEvaluation(const ScheduleShape& shape, StageId stage, ReplicaId replica, int64_t epoch,
                      std::vector<Instruction>& program) {
  const std::vector<StageId> stages = StagesOn(shape, DeviceOf(shape, stage));
  const int64_t first = epoch * shape.evaluation_microbatches;
  const size_t begin = program.size();
  for (int32_t chunk = 0; chunk < std::ssize(stages); ++chunk) {
    for (int64_t j = first; j < first + shape.evaluation_microbatches; ++j) {
      if (ReplicaOf(shape, stages[chunk], MicrobatchId(j)) != replica) continue;
      program.push_back({.op = Op::kEvaluate, .microbatch = MicrobatchId(j), .chunk = chunk});
    }
  }
  if (stages.size() == 1) return;
  const int64_t r = shape.replicas[stage.value()];
  auto step = [&](const Instruction& i) {
    return std::tuple(i.microbatch.value() / r + stages[i.chunk].value(), i.microbatch);
  };
  std::sort(program.begin() + static_cast<int64_t>(begin), program.end(),
            [&](const Instruction& a, const Instruction& b) { return step(a) < step(b); });
}

void AppendUpdate(const ScheduleShape& shape, StageId stage, ReplicaId replica, int64_t minibatch,
                  std::vector<Instruction>& program) {
  const auto chunks = static_cast<int32_t>(StagesOn(shape, DeviceOf(shape, stage)).size());
  for (int32_t chunk = 0; chunk < chunks; ++chunk) {
    program.push_back({.op = Op::kStep, .microbatch = MicrobatchId(minibatch), .chunk = chunk});
  }
  if ((minibatch + 1) % shape.minibatches_per_epoch == 0) {
    AppendEvaluation(shape, stage, replica, minibatch / shape.minibatches_per_epoch, program);
  }
}

}  // namespace pipedream
