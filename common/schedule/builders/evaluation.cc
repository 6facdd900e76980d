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

void MinibatchUpdates::Validate() {
  if (made_ < 0) return;
  program_.push_back({.op = Op::kValidate, .microbatch = MicrobatchId(made_)});
  made_ = -1;
}

void MinibatchUpdates::Update(int64_t minibatch) {
  Validate();  // where the minibatch gave this replica no backward
  const auto chunks =
      static_cast<int32_t>(StagesOn(shape_, DeviceOf(shape_, worker_.stage)).size());
  for (int32_t chunk = 0; chunk < chunks; ++chunk) {
    program_.push_back({.op = Op::kStep, .microbatch = MicrobatchId(minibatch), .chunk = chunk});
  }
  if (speculative_) made_ = minibatch;
  const bool last = minibatch + 1 == shape_.minibatches();
  const bool epoch_ends = (minibatch + 1) % shape_.minibatches_per_epoch == 0;
  if (last || (epoch_ends && shape_.evaluation_microbatches > 0)) Validate();
  if (epoch_ends) {
    AppendEvaluation(shape_, worker_.stage, worker_.replica,
                     minibatch / shape_.minibatches_per_epoch, program_);
  }
}

}  // namespace pipedream
