#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/passes/passes.h"

namespace pipedream {

std::span<const Pass> LoweringPasses() {
  static constexpr std::array<Pass, 5> kPasses = {{{"reductions", AddReductions},
                                                   {"norms", AddNorms},
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
  size_t index = 0;
  for (int s = 0; s < table.shape.stages(); ++s) {
    for (int q = 0; q < table.shape.replicas[s]; ++q, ++index) {
      if (index >= table.programs.size()) break;
      WorkerContext worker{table.shape, table.policy, StageId(s), ReplicaId(q)};
      PD_ASSIGN_OR_RETURN(table.programs[index],
                          pass.run(worker, std::move(table.programs[index])));
    }
  }
  if (index != table.programs.size()) {
    return InvalidArgument("schedule '{}' has {} programs, its shape {} workers", table.name,
                           table.programs.size(), index);
  }
  return table;
}

}  // namespace pipedream
