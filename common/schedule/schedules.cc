#include "common/schedule/schedules.h"

#include <utility>

#include "common/base/status.h"
#include "common/schedule/passes/passes.h"
#include "common/schedule/roll.h"
#include "common/schedule/stream.h"
#include "common/schedule/validate.h"

namespace pipedream {
namespace {

constexpr int kMaxChannelSlots = 256;

// Validates with the least power of two of channel slots that cannot deadlock, and notes it.
absl::Status ValidateAndSizeChannels(std::vector<StageProgram>& programs) {
  absl::Status status;
  for (int slots = 2; slots <= kMaxChannelSlots; slots *= 2) {
    status = ValidatePrograms(programs, {.channel_slots = slots, .memory = {}});
    if (status.ok()) {
      for (StageProgram& program : programs) program.channel_slots = slots;
      return status;
    }
    bool deadlock =
        std::string_view(status.message().data(), status.message().size()).starts_with("V9");
    if (!deadlock) break;
  }
  return status;
}

}  // namespace

absl::StatusOr<ScheduleTable> LowerTable(ScheduleTable table) {
  for (const Pass& pass : LoweringPasses()) {
    absl::StatusOr<ScheduleTable> result = ApplyPass(pass, std::move(table));
    if (!result.ok()) {
      return Annotate(result.status(), std::string("pass ") + std::string(pass.name));
    }
    table = *std::move(result);
  }
  return table;
}

absl::StatusOr<std::vector<StageProgram>> MakePrograms(std::string_view schedule,
                                                       const ScheduleShape& shape) {
  PD_ASSIGN_OR_RETURN(const ScheduleInfo* info, FindSchedule(schedule));
  PD_RETURN_IF_ERROR(info->check(shape));
  std::vector<StageProgram> programs;
  for (const Peer& worker : WorkersOf(shape)) {
    WorkerContext context(shape, info->policy, worker);
    PD_ASSIGN_OR_RETURN(Program program,
                        LowerProgram(context, info->emit(shape, worker.stage, worker.replica)));
    programs.push_back(RollProgram(shape, info->policy, worker, program));
  }
  if (absl::Status status = ValidateAndSizeChannels(programs); !status.ok()) {
    return Annotate(status, std::string("schedule ") + std::string(schedule));
  }
  return programs;
}

absl::StatusOr<std::vector<StageProgram>> MakePrograms(const ScheduleTable& compute_only) {
  PD_ASSIGN_OR_RETURN(ScheduleTable table, LowerTable(compute_only));
  std::vector<StageProgram> programs;
  for (const Peer& worker : WorkersOf(table.shape)) {
    PD_ASSIGN_OR_RETURN(StageProgram program, Roll(table, worker));
    programs.push_back(std::move(program));
  }
  if (absl::Status status = ValidateAndSizeChannels(programs); !status.ok()) {
    return Annotate(status, "schedule " + table.name);
  }
  return programs;
}

}  // namespace pipedream
