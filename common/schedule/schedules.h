// From a name to a validated program per worker. Pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>
#include <vector>

#include "common/schedule/stage_program.h"

namespace pipedream {

struct ScheduleInfo {
  std::string_view name;     // "pipedream"
  std::string_view summary;  // one line for people
  bool synchronous;          // equal to plain minibatch training
  WeightPolicy policy;
  // kInvalidArgument names the field of `shape` that the schedule cannot serve.
  absl::Status (*check)(const ScheduleShape& shape);
  // One worker's compute instructions (F, B or I and W, U, E); passes add the rest. `stage` is the
  // first of its device. REQUIRES: check passed.
  std::vector<Instruction> (*emit)(const ScheduleShape& shape, StageId stage, ReplicaId replica);
  // Stages that it can put on one device, and ScheduleShape::device_of for `devices` with `chunks`
  // each; null: one, each on its own.
  int min_chunks = 1, max_chunks = 1;
  std::vector<int> (*place)(int devices, int chunks) = nullptr;

  // All workers' compute instructions. Errors as `check`.
  absl::StatusOr<ScheduleTable> build(const ScheduleShape& shape) const;
};

// All schedules, in the order that help texts show them.
const std::vector<ScheduleInfo>& AllSchedules();
// kInvalidArgument lists the known names.
absl::StatusOr<const ScheduleInfo*> FindSchedule(std::string_view name);

// All lowering passes (passes.h) on a table of compute instructions. Not yet validated.
absl::StatusOr<ScheduleTable> LowerTable(ScheduleTable compute_only);

// Build, lower, roll, validate (validate.h); in the order of WorkersOf. One worker at a time, so
// that a run of a million microbatches needs some hundred megabytes on the way and little
// afterwards. channel_slots is the least of 2, 4, 8 ... that cannot deadlock.
absl::StatusOr<std::vector<StageProgram>> MakePrograms(std::string_view schedule,
                                                       const ScheduleShape& shape);
// The same for a table of compute instructions of the whole run (see repeat_table.h).
absl::StatusOr<std::vector<StageProgram>> MakePrograms(const ScheduleTable& compute_only);

// One worker's slice of a lowered table, rolled. kInvalidArgument if there is no such worker.
absl::StatusOr<StageProgram> Roll(const ScheduleTable& table, const Peer& worker);
// The inverse of Roll.
std::vector<Instruction> Unroll(const StageProgram& program);

}  // namespace pipedream
