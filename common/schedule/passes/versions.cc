#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

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

// Fills in the versions; fails if a backward has no forward before it.
absl::Status Assign(const WorkerContext& worker, Program& program) {
  WeightVersion latest{0};
  std::vector<Reading> in_flight;
  for (Instruction& instruction : program) {
    switch (instruction.op) {
      case Op::kForward:
        instruction.version = worker.policy == WeightPolicy::kStash
                                  ? latest
                                  : WeightVersion(UpdateOf(worker.shape, worker.policy,
                                                           worker.stage, instruction.microbatch));
        in_flight.push_back({instruction.microbatch, instruction.version});
        break;
      case Op::kBackward:
      case Op::kBackwardInput:
      case Op::kBackwardWeight: {
        auto reading = std::find_if(in_flight.begin(), in_flight.end(), [&](const Reading& entry) {
          return entry.microbatch == instruction.microbatch;
        });
        if (reading == in_flight.end()) {
          return InvalidArgument("stage {} replica {}: {} has no forward before it", worker.stage,
                                 worker.replica, Format(instruction));
        }
        instruction.version = reading->version;
        if (instruction.op != Op::kBackwardInput) in_flight.erase(reading);
        break;
      }
      case Op::kEvaluate:
        if (worker.shape.evaluation_microbatches == 0) {
          return InvalidArgument("stage {} replica {}: {} in a run without evaluation",
                                 worker.stage, worker.replica, Format(instruction));
        }
        instruction.version = EvaluationVersion(
            worker.shape, worker.policy, worker.stage,
            instruction.microbatch.value() / worker.shape.evaluation_microbatches);
        break;
      case Op::kStep:
        instruction.version = latest = WeightVersion(instruction.microbatch.value() + 1);
        break;
      default:
        break;
    }
  }
  return absl::OkStatus();
}

// The position of the last E of every version that is no longer the newest there.
absl::flat_hash_map<WeightVersion::rep, size_t> LateReads(const Program& program) {
  absl::flat_hash_map<WeightVersion::rep, size_t> late;
  WeightVersion latest{0};
  for (size_t k = 0; k < program.size(); ++k) {
    if (program[k].op == Op::kStep) latest = program[k].version;
    if (program[k].op == Op::kEvaluate && program[k].version < latest) {
      late[program[k].version.value()] = k;
    }
  }
  return late;
}

}  // namespace

absl::StatusOr<Program> AssignVersions(const WorkerContext& worker, Program program) {
  PD_RETURN_IF_ERROR(Assign(worker, program));
  absl::flat_hash_map<WeightVersion::rep, size_t> late = LateReads(program);
  if (late.empty()) return program;
  Program result;
  result.reserve(program.size() + 2 * late.size());
  auto pin_if_late = [&](WeightVersion version) {
    if (late.contains(version.value())) result.push_back({.op = Op::kPin, .version = version});
  };
  pin_if_late(WeightVersion(0));
  for (size_t k = 0; k < program.size(); ++k) {
    const Instruction& instruction = program[k];
    result.push_back(instruction);
    if (instruction.op == Op::kStep) pin_if_late(instruction.version);
    if (instruction.op != Op::kEvaluate) continue;
    auto last_read = late.find(instruction.version.value());
    if (last_read != late.end() && last_read->second == k) {
      result.push_back({.op = Op::kUnpin, .version = instruction.version});
    }
  }
  return result;
}

}  // namespace pipedream
