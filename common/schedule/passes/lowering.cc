#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/passes/passes.h"

namespace pipedream {

std::span<const Pass> LoweringPasses() {
  static constexpr std::array<Pass, 4> kPasses = {{{"collectives", AddCollectives},
                                                   {"versions", AssignVersions},
                                                   {"slots", AssignSlots},
                                                   {"transfers", AddTransfers}}};
  return kPasses;
}

absl::StatusOr<Program> LowerProgram(const WorkerContext& worker, Program program) {
  for (const Pass& pass : LoweringPasses()) {
    PD_ASSIGN_OR_RETURN(program, pass.run(worker, std::move(program)));
  }
  return program;
}

absl::StatusOr<ScheduleTable> ApplyPass(const Pass& pass, ScheduleTable table) {
  PD_RETURN_IF_ERROR(Validate(table.shape));
  const std::vector<Peer> workers = WorkersOf(table.shape);
  if (table.programs.size() != workers.size()) {
    return InvalidArgument("schedule '{}' has {} programs, its shape {} workers", table.name,
                           table.programs.size(), workers.size());
  }
  for (size_t w = 0; w < workers.size(); ++w) {
    WorkerContext worker(table.shape, table.policy, workers[w]);
    PD_ASSIGN_OR_RETURN(table.programs[w], pass.run(worker, std::move(table.programs[w])));
  }
  return table;
}

}  // namespace pipedream
