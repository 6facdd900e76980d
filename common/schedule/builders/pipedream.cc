#include <algorithm>
#include <numeric>

#include "common/base/status.h"
#include "common/schedule/builders/builders.h"

namespace pipedream {
namespace {

// Rounds of stage s, in microbatches, that it runs ahead of its backwards.
int64_t Ahead(const ScheduleShape& shape, int s) {
  return int64_t{WarmupDepth(shape, StageId(s))} * shape.replicas[s];
}

// Whether every stage can run its evaluation just before its forwards of `first` and later ones. A
// replica of stage s then has behind it, through the reductions, all backwards of its stage below
// the next multiple of r_s less Ahead(s); the stage behind must be allowed to run these before
// its own evaluation, and it runs those below first - Ahead(s + 1).
bool Fits(const ScheduleShape& shape, int64_t first) {
  for (int s = 0; s + 1 < shape.stages(); ++s) {
    int64_t r = shape.replicas[s];
    int64_t beyond = (first + r - 1) / r * r - first;
    if (beyond > Ahead(shape, s) - Ahead(shape, s + 1)) return false;
  }
  return true;
}

// The first training microbatch whose forward comes after the evaluation of `epoch`, on every stage
// alike: forwards and evaluations then cross every boundary in one global order, so both ends of
// each channel agree. It is the earliest place that fits where every stage has made the updates of
// the epoch; a multiple of all r_s always fits.
int64_t FirstAfterEvaluation(const ScheduleShape& shape, int64_t epoch) {
  int64_t first = 0;
  int64_t multiple = 1;
  for (int s = 0; s < shape.stages(); ++s) {
    int64_t updates = EvaluationVersion(shape, WeightPolicy::kStash, StageId(s), epoch).value();
    first = std::max(first, updates * shape.replicas[s] + Ahead(shape, s));
    multiple = std::min(std::lcm(multiple, int64_t{shape.replicas[s]}), kMaxMicrobatches);
  }
  while (!Fits(shape, first) && first % multiple != 0) ++first;
  return first;
}

}  // namespace

absl::Status CheckPipedream(const ScheduleShape& shape) {
  PD_RETURN_IF_ERROR(Validate(shape));
  if (shape.microbatches_per_minibatch != 1) {
    return InvalidArgument(
        "microbatches_per_minibatch: {}, but schedule 'pipedream' makes an update after every "
        "microbatch and takes 1 only: use 1, or a flush schedule (1f1b, gpipe)",
        shape.microbatches_per_minibatch);
  }
  return absl::OkStatus();
}

std::vector<Instruction> EmitPipedream(const ScheduleShape& shape, StageId stage,
                                       ReplicaId replica) {
  const int64_t total = shape.microbatches();
  const int64_t r = shape.replicas[stage.value()];
  const int64_t rounds = UpdateCount(shape, WeightPolicy::kStash, stage);
  const int64_t depth = WarmupDepth(shape, stage);
  std::vector<Instruction> program;
  program.reserve(3 * rounds);
  // Step k runs the forward of round k and the backward of round k - depth, as far as there are
  // such; where this replica has no part in the last round it still makes the update.
  int64_t epoch = 0;
  auto first_after = [&] {
    return epoch + 1 < shape.epochs ? FirstAfterEvaluation(shape, epoch) : -1;
  };
  int64_t gate = first_after();
  for (int64_t k = 0; k < rounds + depth; ++k) {
    if (k == rounds && depth > rounds) k = depth;  // in between there is nothing to do
    int64_t forward = k * r + replica.value();
    for (; gate >= 0 && forward >= gate; gate = first_after()) {
      AppendEvaluation(shape, stage, replica, epoch++, program);
    }
    if (k < rounds && forward < total) {
      program.push_back({.op = Op::kForward, .microbatch = MicrobatchId(forward)});
    }
    if (k < depth) continue;
    int64_t backward = forward - depth * r;
    if (backward < total) {
      program.push_back({.op = Op::kBackward, .microbatch = MicrobatchId(backward)});
    }
    program.push_back({.op = Op::kStep, .microbatch = MicrobatchId(k - depth)});
  }
  for (; epoch < shape.epochs; ++epoch) {
    AppendEvaluation(shape, stage, replica, epoch, program);
  }
  return program;
}

}  // namespace pipedream
