// From a name to a validated program per worker. Pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>
#include <vector>

#include "common/schedule/stage_program.h"

namespace pipedream {

struct ScheduleInfo {
  std::string_view name;      // "pipedream"
  std::string_view summary;   // one line for people
  bool synchronous;           // equal to plain minibatch training
  WeightPolicy policy;
  // Compute instructions only (F, B, U, E); passes add the rest. kInvalidArgument names the field of
  // `shape` that the schedule cannot serve.
  absl::StatusOr<ScheduleTable> (*build)(const ScheduleShape& shape);
};

// All schedules, in the order that help texts show them.
const std::vector<ScheduleInfo>& AllSchedules();
// kInvalidArgument lists the known names.
absl::StatusOr<const ScheduleInfo*> FindSchedule(std::string_view name);

// build + passes: reductions, norms, versions, slots, transfers. Not yet validated.
absl::StatusOr<ScheduleTable> LowerTable(ScheduleTable compute_only);

// Build, lower, validate (validate.h), roll. programs[WorkerIndex].
absl::StatusOr<std::vector<StageProgram>> MakePrograms(std::string_view schedule,
                                                       const ScheduleShape& shape);
// One worker's slice of a lowered table, rolled.
absl::StatusOr<StageProgram> Roll(const ScheduleTable& table, StageId stage, ReplicaId replica);
// The inverse of Roll.
std::vector<Instruction> Unroll(const StageProgram& program);

}  // namespace pipedream
