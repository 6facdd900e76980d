#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/passes/passes.h"

namespace pipedream {
namespace {

// Follows which updates' gradients are complete, chunk by chunk.
class Collectives {
 public:
  explicit Collectives(const WorkerContext& worker) : worker_(worker) {
    const std::vector<int>& tied = worker.shape.tied_stages;
    for (StageId stage : worker.stages) {
      chunks_.push_back(
          {.stage = stage, .tied = std::binary_search(tied.begin(), tied.end(), stage.value())});
    }
  }

  // What comes before and after `instruction`.
  void Before(const Instruction& instruction, Program& out) {
    Chunk& chunk = chunks_[instruction.chunk];
    if (instruction.op == Op::kStep) {
      // The last stage first, as where there are backwards.
      for (size_t k = chunks_.size(); k-- > 0;) {
        CloseEmpty(chunks_[k], instruction.microbatch.value() + 1, out);
      }
    } else if (IsLastOfMicrobatch(instruction.op)) {
      CloseEmpty(chunk, Update(chunk, instruction), out);
    }
  }
  void After(const Instruction& instruction, Program& out) {
    if (!IsLastOfMicrobatch(instruction.op)) return;
    Chunk& chunk = chunks_[instruction.chunk];
    if (++chunk.backwards == Due(chunk)) Close(chunk, out);
  }

 private:
  struct Chunk {
    StageId stage;
    bool tied = false;
    int64_t closed = 0;     // updates whose gradients are complete
    int64_t backwards = 0;  // of the next one
  };

  static bool IsLastOfMicrobatch(Op op) { return op == Op::kBackward || op == Op::kBackwardWeight; }

  int64_t Update(const Chunk& chunk, const Instruction& instruction) const {
    return UpdateOf(worker_.shape, worker_.policy, chunk.stage, instruction.microbatch);
  }

  // This replica's microbatches in the next update.
  int64_t Due(const Chunk& chunk) const {
    const int64_t span = UpdateSpan(worker_.shape, worker_.policy, chunk.stage);
    const int64_t r = worker_.shape.replicas[chunk.stage.value()];
    const int64_t q = worker_.replica.value();
    auto own_below = [&](int64_t end) { return end <= q ? 0 : (end - 1 - q) / r + 1; };
    const int64_t end = std::min((chunk.closed + 1) * span, worker_.shape.microbatches());
    return own_below(end) - own_below(chunk.closed * span);
  }

  void CloseEmpty(Chunk& chunk, int64_t end, Program& out) {
    while (chunk.closed < end && Due(chunk) == 0) Close(chunk, out);
  }

  void Close(Chunk& chunk, Program& out) {
    const int64_t update = chunk.closed++;
    chunk.backwards = 0;
    if (worker_.shape.replicas[chunk.stage.value()] > 1) {
      out.push_back({.op = Op::kReduce,
                     .microbatch = MicrobatchId(update),
                     .chunk = static_cast<int32_t>(&chunk - chunks_.data())});
    }
    while (TieIsReady()) {
      out.push_back({.op = Op::kTie, .microbatch = MicrobatchId(next_tie_++)});
    }
    while (NormIsReady()) {
      out.push_back({.op = Op::kNorm, .microbatch = MicrobatchId(next_norm_++)});
    }
  }

  bool TieIsReady() const {
    bool any = false;
    for (const Chunk& chunk : chunks_) {
      if (chunk.tied && chunk.closed <= next_tie_) return false;
      any = any || chunk.tied;
    }
    return any;
  }

  bool NormIsReady() const {
    if (!worker_.shape.global_norm || next_norm_ >= NormCount(worker_.shape, worker_.policy)) {
      return false;
    }
    return std::all_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
      return chunk.closed > UpdateOfNorm(worker_.shape, worker_.policy, chunk.stage, next_norm_);
    });
  }

  const WorkerContext& worker_;
  std::vector<Chunk> chunks_;
  int64_t next_tie_ = 0, next_norm_ = 0;
};

}  // namespace

absl::StatusOr<Program> AddCollectives(const WorkerContext& worker, Program program) {
  const ScheduleShape& shape = worker.shape;
  if (!shape.tied_stages.empty() &&
      (worker.policy == WeightPolicy::kStash || worker.policy == WeightPolicy::kVerticalSync ||
       worker.policy == WeightPolicy::kSingle)) {
    return InvalidArgument(
        "tied_stages: parameters shared by several stages need a synchronous schedule or 2bw; with "
        "'{}' the copies would be updated at different times. Keep the uses in one stage",
        PolicyName(worker.policy));
  }
  Collectives collectives(worker);
  Program result;
  result.reserve(program.size() + program.size() / 2);
  for (const Instruction& instruction : program) {
    if (instruction.chunk < 0 || instruction.chunk >= std::ssize(worker.stages)) {
      return InvalidArgument("stage {} replica {}: {} is of no chunk, the worker has {}",
                             worker.stages[0], worker.replica, Format(instruction),
                             worker.stages.size());
    }
    collectives.Before(instruction, result);
    result.push_back(instruction);
    collectives.After(instruction, result);
  }
  return result;
}

}  // namespace pipedream
