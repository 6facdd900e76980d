#include "common/planner/play.h"

#include <algorithm>
#include <numeric>

#include "common/base/status.h"
#include "common/schedule/repeat_table.h"

namespace pipedream {
namespace {

// Of a run that is played: more in flight is not told apart from it.
constexpr int64_t kMostMicrobatches = int64_t{1} << 16;
constexpr int64_t kLongestRound = 192;
// Channels are given twice as many slots as long as the schedule cannot do with them.
constexpr int kMostChannelSlots = 64;

ScheduleShape ShapeToPlay(const PlanRequest& request, const JobSchedule& schedule,
                          const ScheduleShape& layout) {
  ScheduleShape shape = layout;
  shape.global_norm = request.global_norm;
  if (schedule.table != nullptr) {  // the pattern, or the whole run
    const ScheduleShape& table = schedule.table->shape;
    shape.minibatches_per_epoch = table.minibatches_per_epoch;
    shape.epochs = table.epochs;
    shape.microbatches_per_minibatch = table.microbatches_per_minibatch;
    shape.evaluation_microbatches = table.evaluation_microbatches;
    shape.warmup = table.warmup;
    return shape;
  }
  shape.microbatches_per_minibatch = request.microbatches;
  if (IsSynchronous(schedule.policy)) return shape;
  int64_t in_flight = 0;
  for (int s = 0; s < shape.stages(); ++s) {
    in_flight =
        std::max(in_flight, (int64_t{WarmupDepth(shape, StageId(s))} + 1) * shape.replicas[s]);
  }
  const int64_t m = request.microbatches;
  // Long enough for the rate to be read over whole rounds of all replicas, if these are not long.
  int64_t round = m;
  for (const int r : shape.replicas) round = std::min(std::lcm(round, int64_t{r}), kLongestRound);
  const int64_t least = std::max(2 * in_flight + 3 * m, std::min(6 * round, kLongestRound));
  shape.minibatches_per_epoch =
      std::clamp<int64_t>((least + m - 1) / m, 1, std::max<int64_t>(kMostMicrobatches / m, 1));
  return shape;
}

absl::StatusOr<std::vector<StageProgram>> ProgramsOf(const JobSchedule& schedule,
                                                     const ScheduleShape& shape) {
  if (schedule.table == nullptr) return MakePrograms(schedule.info->name, shape);
  PD_ASSIGN_OR_RETURN(const ScheduleTable table, RepeatTable(*schedule.table, shape));
  return MakePrograms(table);
}

int ForwardsAhead(const StageProgram& program, int chunk) {
  int forwards = 0;
  for (ProgramCursor cursor(program); !cursor.done(); cursor.Next()) {
    const Instruction instruction = cursor.Get();
    if (instruction.chunk != chunk) continue;
    if (instruction.op == Op::kBackward || instruction.op == Op::kBackwardInput) break;
    if (instruction.op == Op::kForward) ++forwards;
  }
  return std::max(forwards - 1, 0);
}

double StepSeconds(const JobSchedule& schedule, const ScheduleShape& shape,
                   const Simulation& run) {
  if (schedule.table == nullptr && !IsSynchronous(schedule.policy))
    return run.steady_s_per_microbatch * shape.microbatches_per_minibatch;
  return run.makespan_s / static_cast<double>(shape.minibatches());
}

// Without a program: what a program needs beside is not asked for.
absl::StatusOr<Simulation> SimulateTable(const JobSchedule& schedule, const ScheduleShape& shape,
                                         SimulateOptions costs) {
  PD_ASSIGN_OR_RETURN(ScheduleTable table, schedule.info->build(shape));
  PD_ASSIGN_OR_RETURN(table, LowerTable(std::move(table)));
  absl::StatusOr<Simulation> run;
  for (costs.channel_slots = 2; costs.channel_slots <= kMostChannelSlots;
       costs.channel_slots *= 2) {
    run = Simulate(table, costs);
    if (run.ok() || run.status().code() != absl::StatusCode::kFailedPrecondition) break;
  }
  return run;
}

}  // namespace

absl::StatusOr<Played> Play(const PlanRequest& request, const JobSchedule& schedule,
                            const ScheduleShape& layout, const SimulateOptions& costs,
                            bool with_needs) {
  ScheduleShape shape = ShapeToPlay(request, schedule, layout);
  Played played;
  if (!with_needs) {
    PD_ASSIGN_OR_RETURN(const Simulation run, SimulateTable(schedule, shape, costs));
    played.step_s = StepSeconds(schedule, shape, run);
    return played;
  }
  PD_ASSIGN_OR_RETURN(std::vector<StageProgram> programs, ProgramsOf(schedule, shape));
  SimulateOptions with_slots = costs;
  for (const StageProgram& program : programs)
    with_slots.channel_slots = std::max(with_slots.channel_slots, program.channel_slots);
  PD_ASSIGN_OR_RETURN(const Simulation run, Simulate(programs, with_slots));
  played.step_s = StepSeconds(schedule, shape, run);
  if (IsSynchronous(schedule.policy) && shape.minibatches() == 1) {
    // What is kept from one minibatch to the next, to take updates back, shows in several.
    shape.minibatches_per_epoch = 3;
    PD_ASSIGN_OR_RETURN(programs, ProgramsOf(schedule, shape));
  }
  played.needs.resize(shape.stages());
  played.warmup.resize(shape.stages());
  for (const StageProgram& program : programs) {
    const std::vector<StageId> stages = program.stages();
    for (size_t chunk = 0; chunk < stages.size(); ++chunk) {
      const int s = stages[chunk].value();
      StageNeeds& most = played.needs[s];  // of all replicas
      most.slots = std::max(most.slots, program.needs[chunk].slots);
      most.versions = std::max(most.versions, program.needs[chunk].versions);
      most.gradients = std::max(most.gradients, program.needs[chunk].gradients);
      most.undo = most.undo || program.needs[chunk].undo;
      played.warmup[s] =
          std::max(played.warmup[s], ForwardsAhead(program, static_cast<int>(chunk)));
    }
  }
  return played;
}

}  // namespace pipedream
