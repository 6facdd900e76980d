#include "common/schedule/repeat_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/schedule/builders/builders.h"
#include "common/schedule/pytorch_csv.h"

namespace pipedream {
namespace {

template <typename T>
absl::Status CheckEqual(std::string_view field, const T& found, const T& expected) {
  if (found == expected) return absl::OkStatus();
  return InvalidArgument("{}: {} in the table, {} in the run", field, found, expected);
}

absl::Status CheckEqualLists(std::string_view field, const std::vector<int>& found,
                             const std::vector<int>& expected) {
  if (found == expected) return absl::OkStatus();
  return InvalidArgument("{}: {} in the table, {} in the run", field, fmt::join(found, ","),
                         fmt::join(expected, ","));
}

std::vector<int> DevicesOf(const ScheduleShape& shape) {
  std::vector<int> devices;
  for (int s = 0; s < shape.stages(); ++s) devices.push_back(DeviceOf(shape, StageId(s)));
  return devices;
}

absl::Status CheckPattern(const ScheduleTable& pattern, const ScheduleShape& run) {
  PD_RETURN_IF_ERROR(Validate(pattern.shape));
  PD_RETURN_IF_ERROR(Validate(run));
  PD_RETURN_IF_ERROR(CheckEqual("stages", pattern.shape.stages(), run.stages()));
  PD_RETURN_IF_ERROR(CheckEqualLists("replicas", pattern.shape.replicas, run.replicas));
  PD_RETURN_IF_ERROR(CheckEqual("microbatches per minibatch",
                                pattern.shape.microbatches_per_minibatch,
                                run.microbatches_per_minibatch));
  PD_RETURN_IF_ERROR(
      CheckEqualLists("devices of the stages", DevicesOf(pattern.shape), DevicesOf(run)));
  return CheckEqual("programs", pattern.programs.size(), WorkersOf(run).size());
}

// Of a table that is to be the whole run.
absl::Status CheckWhole(const ScheduleShape& table, const ScheduleShape& run) {
  PD_RETURN_IF_ERROR(
      CheckEqual("minibatches per epoch", table.minibatches_per_epoch, run.minibatches_per_epoch));
  PD_RETURN_IF_ERROR(CheckEqual("epochs", table.epochs, run.epochs));
  PD_RETURN_IF_ERROR(CheckEqual("evaluation microbatches", table.evaluation_microbatches,
                                run.evaluation_microbatches));
  return CheckEqualLists("warm-up", table.warmup, run.warmup);
}

// F, B, I, W.
bool Trains(Op op) { return IsCompute(op) && op != Op::kEvaluate; }

// What a builder would have emitted.
std::vector<Instruction> ComputeOnly(const std::vector<Instruction>& program) {
  std::vector<Instruction> result;
  for (Instruction instruction : program) {
    const Op op = instruction.op;
    if (!IsCompute(op) && op != Op::kStep && op != Op::kValidate) continue;
    instruction.version = kNoVersion;
    instruction.slot = kNoSlot;
    result.push_back(instruction);
  }
  return result;
}

// F, B, I and W of each row; numbers and chunks are those of the pattern's shape.
absl::StatusOr<std::vector<std::vector<Instruction>>> TrainingRows(const ScheduleTable& pattern) {
  const std::vector<Peer> workers = WorkersOf(pattern.shape);
  std::vector<std::vector<Instruction>> rows;
  for (size_t w = 0; w < workers.size(); ++w) {
    const auto chunks =
        std::ssize(StagesOn(pattern.shape, DeviceOf(pattern.shape, workers[w].stage)));
    auto fault = [&](const Instruction& instruction, std::string_view what, int64_t count) {
      return InvalidArgument("stage {} replica {}: {}, but there are {} {}", workers[w].stage,
                             workers[w].replica, Format(instruction), count, what);
    };
    std::vector<Instruction>& row = rows.emplace_back();
    for (const Instruction& instruction : ComputeOnly(pattern.programs[w])) {
      if (!Trains(instruction.op)) continue;
      if (instruction.microbatch.value() >= pattern.shape.microbatches_per_minibatch) {
        return fault(instruction, "microbatches", pattern.shape.microbatches_per_minibatch);
      }
      if (instruction.chunk < 0 || instruction.chunk >= chunks) {
        return fault(instruction, "chunks", chunks);
      }
      row.push_back(instruction);
    }
  }
  return rows;
}

}  // namespace

absl::StatusOr<ScheduleTable> ParseScheduleFile(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const std::string_view start = begin == std::string_view::npos ? "" : text.substr(begin);
  if (start.starts_with("schedule")) return ParseTable(text);
  constexpr std::string_view kCsvStart = "0123456789,\"(";
  if (!start.empty() && kCsvStart.find(start[0]) != std::string_view::npos) {
    return ParsePyTorchCsv(text);
  }
  return InvalidArgument(
      "schedule file: begins with '{}', expected 'schedule NAME key=value ...' (text form) or a "
      "cell like 0F0 (CSV)",
      start.substr(0, std::min<size_t>(start.find_first_of(" \t\r\n"), 20)));
}

absl::StatusOr<ScheduleTable> RepeatTable(const ScheduleTable& pattern, const ScheduleShape& run) {
  if (absl::Status status = CheckPattern(pattern, run); !status.ok()) {
    return Annotate(status, "schedule " + pattern.name);
  }
  ScheduleTable table{.name = pattern.name, .policy = pattern.policy, .shape = run, .programs = {}};
  if (!IsSynchronous(pattern.policy) || pattern.shape.minibatches() > 1) {
    if (absl::Status status = CheckWhole(pattern.shape, run); !status.ok()) {
      return InvalidArgument(
          "schedule {}: {}; a table of several minibatches or of an asynchronous policy must be "
          "the "
          "whole run",
          pattern.name, std::string(status.message().data(), status.message().size()));
    }
    for (const auto& program : pattern.programs) table.programs.push_back(ComputeOnly(program));
    return table;
  }
  absl::StatusOr<std::vector<std::vector<Instruction>>> rows = TrainingRows(pattern);
  if (!rows.ok()) return Annotate(rows.status(), "schedule " + pattern.name);
  const int64_t m = run.microbatches_per_minibatch;
  for (const Peer& worker : WorkersOf(run)) {
    const int64_t r = run.replicas[worker.stage.value()];
    std::vector<Instruction>& program = table.programs.emplace_back();
    MinibatchUpdates updates(run, pattern.policy, worker, &program);
    for (int64_t t = 0; t < run.minibatches(); ++t) {
      // Microbatch i of the pattern becomes i + t m; this replica has those congruent to it.
      const ReplicaId role(static_cast<int>(((worker.replica.value() - t * m) % r + r) % r));
      for (Instruction instruction : (*rows)[WorkerIndex(run, {worker.stage, role})]) {
        instruction.microbatch = instruction.microbatch + t * m;
        if (instruction.op != Op::kForward) updates.Validate();
        program.push_back(instruction);
      }
      updates.Update(t);
    }
  }
  return table;
}

}  // namespace pipedream
