#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/passes/passes.h"

namespace pipedream {
namespace {

struct Reading {
  MicrobatchId microbatch;
  WeightVersion version;
};

// Fills in the versions of one worker's program; fails if a backward has no forward before it.
class VersionAssignment {
 public:
  explicit VersionAssignment(const WorkerContext& worker)
      : worker_(worker), chunks_(worker.stages.size()) {}

  absl::Status Apply(Instruction& instruction) {
    Chunk& chunk = chunks_[instruction.chunk];
    const StageId stage = worker_.stages[instruction.chunk];
    switch (instruction.op) {
      case Op::kForward:
        instruction.version =
            ForwardVersion(worker_.shape, worker_.policy, stage, instruction.microbatch)
                .value_or(chunk.latest);
        chunk.in_flight.push_back({instruction.microbatch, instruction.version});
        return absl::OkStatus();
      case Op::kBackward:
      case Op::kBackwardInput:
      case Op::kBackwardWeight:
        return Backward(instruction, chunk);
      case Op::kEvaluate:
        if (worker_.shape.evaluation_microbatches == 0) {
          return InvalidArgument("stage {} replica {}: {} in a run without evaluation", stage,
                                 worker_.replica, Format(instruction));
        }
        instruction.version = EvaluationVersion(
            worker_.shape, worker_.policy, stage,
            instruction.microbatch.value() / worker_.shape.evaluation_microbatches);
        return absl::OkStatus();
      case Op::kStep:
        instruction.version = chunk.latest = WeightVersion(instruction.microbatch.value() + 1);
        return absl::OkStatus();
      default:
        return absl::OkStatus();
    }
  }

 private:
  struct Chunk {
    WeightVersion latest{0};
    std::vector<Reading> in_flight;
  };

  absl::Status Backward(Instruction& instruction, Chunk& chunk) {
    auto reading = std::find_if(
        chunk.in_flight.begin(), chunk.in_flight.end(),
        [&](const Reading& entry) { return entry.microbatch == instruction.microbatch; });
    if (reading == chunk.in_flight.end()) {
      return InvalidArgument("stage {} replica {}: {} has no forward before it",
                             worker_.stages[instruction.chunk], worker_.replica,
                             Format(instruction));
    }
    instruction.version =
        BackwardReadsForwardVersion(worker_.policy) ? reading->version : chunk.latest;
    if (instruction.op != Op::kBackwardInput) chunk.in_flight.erase(reading);
    return absl::OkStatus();
  }

  const WorkerContext& worker_;
  std::vector<Chunk> chunks_;
};

bool ReadsAnew(Op op) { return op == Op::kForward || op == Op::kEvaluate; }

// Per chunk: the position of the last F or E of every version that is no longer the newest there.
using LateReads = std::vector<absl::flat_hash_map<WeightVersion::rep, size_t>>;

LateReads LateReadsOf(const Program& program, size_t chunks) {
  LateReads late(chunks);
  std::vector<WeightVersion> latest(chunks, WeightVersion(0));
  for (size_t k = 0; k < program.size(); ++k) {
    const Instruction& instruction = program[k];
    if (instruction.op == Op::kStep) latest[instruction.chunk] = instruction.version;
    if (ReadsAnew(instruction.op) && instruction.version < latest[instruction.chunk]) {
      late[instruction.chunk][instruction.version.value()] = k;
    }
  }
  return late;
}

// The version that an update was made from stays until the update is known to hold.
Program PinForUndo(const WorkerContext& worker, Program program) {
  if (!worker.shape.global_norm) return program;
  Program result;
  result.reserve(program.size() + program.size() / 2);
  for (const Instruction& instruction : program) {
    const WeightVersion before(instruction.microbatch.value());
    if (instruction.op == Op::kStep) {
      result.push_back({.op = Op::kPin, .version = before, .chunk = instruction.chunk});
    }
    result.push_back(instruction);
    if (instruction.op != Op::kValidate) continue;
    for (int32_t chunk = 0; chunk < std::ssize(worker.stages); ++chunk) {
      result.push_back({.op = Op::kUnpin, .version = before, .chunk = chunk});
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<Program> AssignVersions(const WorkerContext& worker, Program program) {
  VersionAssignment assignment(worker);
  for (Instruction& instruction : program) PD_RETURN_IF_ERROR(assignment.Apply(instruction));
  if (worker.policy == WeightPolicy::kSpeculative) return PinForUndo(worker, std::move(program));
  const LateReads late = LateReadsOf(program, worker.stages.size());
  size_t pins = 0;
  for (const auto& chunk : late) pins += chunk.size();
  if (pins == 0) return program;
  Program result;
  result.reserve(program.size() + 2 * pins);
  auto pin_if_late = [&](int32_t chunk, WeightVersion version) {
    if (!late[chunk].contains(version.value())) return;
    result.push_back({.op = Op::kPin, .version = version, .chunk = chunk});
  };
  for (int32_t chunk = 0; chunk < std::ssize(late); ++chunk) pin_if_late(chunk, WeightVersion(0));
  for (size_t k = 0; k < program.size(); ++k) {
    const Instruction& instruction = program[k];
    result.push_back(instruction);
    if (instruction.op == Op::kStep) pin_if_late(instruction.chunk, instruction.version);
    if (!ReadsAnew(instruction.op)) continue;
    const auto& reads = late[instruction.chunk];
    auto last_read = reads.find(instruction.version.value());
    if (last_read != reads.end() && last_read->second == k) {
      result.push_back(
          {.op = Op::kUnpin, .version = instruction.version, .chunk = instruction.chunk});
    }
  }
  return result;
}

}  // namespace pipedream
