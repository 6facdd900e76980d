// A job's schedule: one that we know by its name, or a table of the user's.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/job/job_spec.h"
#include "common/schedule/schedules.h"

namespace pipedream {

struct JobSchedule {
  WeightPolicy policy = WeightPolicy::kStash;
  const ScheduleInfo* info = nullptr;          // null: the user's own
  std::shared_ptr<const ScheduleTable> table;  // the user's own; else null
  int chunks = 1;                              // stages per device; of a table, its shape says it

  // ScheduleShape::device_of for so many devices; empty: a stage is a device.
  std::vector<int> device_of(int devices) const;
};

// kInvalidArgument: an unknown name, a table that does not parse, chunks that the schedule does not
// take.
absl::StatusOr<JobSchedule> ScheduleOf(const JobSpec& spec);

// Makes a user's table (repeat_table.h says in which forms) the job's schedule: sets
// schedule_table, its name, and, where the job leaves them at 1, the microbatches. kInvalidArgument
// names `source` and the place in it.
absl::Status SetScheduleTable(std::string text, std::string_view source, JobSpec* spec);

// The shape of the job's run with so many replicas per stage on these devices (empty: each stage
// has its own); a user's table knows its warm-up better. Edges and ties are for SetStageFlow.
// Errors: as ScheduleOf.
absl::StatusOr<ScheduleShape> ShapeOfRun(const JobSpec& spec, const RunShape& run,
                                         std::vector<int> replicas, std::vector<int> warmup,
                                         std::vector<int> device_of);

// Workers that the job asks for, or that its stages or its table need at least. 1 if it does not
// say; what ScheduleOf refuses does not count.
int LeastWorkers(const JobSpec& spec);

// What every worker runs, in the order of WorkersOf. Errors: as ScheduleOf, RepeatTable and the
// MakePrograms of schedules.h.
absl::StatusOr<std::vector<StageProgram>> MakePrograms(const JobSpec& spec,
                                                       const ScheduleShape& shape);

}  // namespace pipedream
