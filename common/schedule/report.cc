#include "common/schedule/report.h"

#include <algorithm>
#include <numeric>

#include "common/base/status.h"

namespace pipedream {
namespace {

// A run long enough that its middle third is steady whatever the pipeline's depth. A third of it is
// a whole number of minibatches, and of the patterns that arise where transfers take time: they
// repeat after the microbatches that stage 0 has in flight, or, with deeper warm-ups, after a few.
int64_t SteadyMinibatches(const ScheduleShape& shape) {
  const int64_t m = shape.microbatches_per_minibatch;
  const int64_t in_flight =
      (int64_t{WarmupDepth(shape, StageId(0))} + 1) * int64_t{shape.replicas[0]};
  const int64_t period = std::lcm(std::lcm(m, in_flight), int64_t{12});
  const auto workers = static_cast<int64_t>(WorkersOf(shape).size());
  const int64_t least = 10 * std::max({workers, in_flight, m, int64_t{10}});
  return 3 * ((least + period - 1) / period) * period / m;
}

// Between two devices, per microbatch of training.
double MessagesOf(const ScheduleShape& shape) {
  double messages = 0;
  for (const ScheduleEdge& edge : EdgesOf(shape)) {
    if (DeviceOf(shape, StageId(edge.from)) == DeviceOf(shape, StageId(edge.to))) continue;
    messages += edge.gradient ? 2 : 1;
  }
  return messages;
}

ScheduleReport ReportRun(const std::vector<StageProgram>& programs, const Simulation& run,
                         std::string_view name) {
  const ScheduleShape& shape = programs[0].shape;
  ScheduleReport report{.schedule = std::string(name), .policy = programs[0].policy, .workers = {}};
  report.devices = shape.devices();
  report.chunks = shape.stages() / shape.devices();
  report.microbatches = shape.microbatches();
  report.makespan = run.makespan_s;
  report.per_microbatch = run.makespan_s / static_cast<double>(shape.microbatches());
  report.idle = run.bubble;
  report.messages_per_microbatch = MessagesOf(shape);
  for (const WorkerUse& use : run.workers) {
    DeviceReport device{.worker = use.worker, .idle = use.bubble};
    // Exact where a device's stages share its activations equally, as UnitCosts has it.
    device.peak_activations =
        static_cast<double>(use.peak_in_flight) / static_cast<double>(use.stages.size());
    for (const StageUse& stage : use.stages) {
      device.weight_copies = std::max(device.weight_copies, stage.peak_versions);
      device.staleness = std::max(device.staleness, stage.staleness);
    }
    report.ideal = std::max(report.ideal, use.busy_s);
    report.peak_activations = std::max(report.peak_activations, device.peak_activations);
    report.weight_copies = std::max(report.weight_copies, device.weight_copies);
    report.staleness = std::max(report.staleness, device.staleness);
    report.workers.push_back(device);
  }
  report.bubble = std::max(0.0, report.makespan - report.ideal);
  return report;
}

double IdleShare(double busy, double time) { return time > 0 ? std::max(0.0, 1 - busy / time) : 0; }

// From the whole run to `microbatches` of its steady middle.
void ToSteadyState(const Simulation& run, int64_t microbatches, ScheduleReport& report) {
  const double scale = static_cast<double>(microbatches) / static_cast<double>(report.microbatches);
  report.microbatches = microbatches;
  report.per_microbatch = run.steady_s_per_microbatch;
  report.makespan = run.steady_s_per_microbatch * static_cast<double>(microbatches);
  report.ideal *= scale;
  report.bubble = std::max(0.0, report.makespan - report.ideal);
  double busy = 0;
  for (size_t w = 0; w < report.workers.size(); ++w) {
    const double own = run.workers[w].busy_s * scale;
    report.workers[w].idle = IdleShare(own, report.makespan);
    busy += own;
  }
  report.idle = IdleShare(busy, report.makespan * static_cast<double>(report.workers.size()));
}

}  // namespace

SimulateOptions OptionsOf(const UnitCosts& costs, const ScheduleShape& shape) {
  SimulateOptions options;
  for (int s = 0; s < shape.stages(); ++s) {
    const double part =
        1.0 / static_cast<double>(StagesOn(shape, DeviceOf(shape, StageId(s))).size());
    StageCosts stage;
    stage.forward_s = part * costs.forward;
    stage.backward_s = part * (costs.backward_input + costs.backward_weight);
    stage.backward_input_s = part * costs.backward_input;
    stage.step_s = part * costs.step;
    stage.evaluate_s = part * costs.forward;
    options.stages.push_back(stage);
  }
  options.links.assign(EdgesOf(shape).size(), {.latency_s = costs.link_latency,
                                               .bandwidth_bytes_per_s = costs.link_bandwidth,
                                               .activation_bytes = costs.boundary_bytes,
                                               .gradient_bytes = costs.boundary_bytes,
                                               .activation_pack_s = 0,
                                               .gradient_pack_s = 0});
  return options;
}

absl::StatusOr<ScheduleShape> ShapeOf(const ScheduleInfo& schedule, const PipelineSpec& pipeline) {
  if (pipeline.devices < 1) {
    return InvalidArgument("stages: {}, expected at least 1", pipeline.devices);
  }
  if (pipeline.microbatches < 1) {
    return InvalidArgument("microbatches: {}, expected at least 1", pipeline.microbatches);
  }
  int chunks = pipeline.chunks;
  if (chunks == 0) chunks = std::clamp(2, schedule.min_chunks, schedule.max_chunks);
  if (chunks < schedule.min_chunks || chunks > schedule.max_chunks) {
    return InvalidArgument("chunks: {}, but schedule '{}' takes {} to {} stages per device", chunks,
                           schedule.name, schedule.min_chunks, schedule.max_chunks);
  }
  ScheduleShape shape;
  std::vector<int> replicas = pipeline.replicas;
  if (replicas.empty()) replicas = {1};
  if (replicas.size() == 1) replicas.assign(pipeline.devices, replicas[0]);
  if (std::ssize(replicas) != pipeline.devices) {
    return InvalidArgument("replicas: {} numbers for {} stages, expected one for each or for all",
                           replicas.size(), pipeline.devices);
  }
  shape.replicas.resize(int64_t{chunks} * pipeline.devices, 1);
  if (schedule.place != nullptr) shape.device_of = schedule.place(pipeline.devices, chunks);
  for (int s = 0; s < shape.stages(); ++s) {
    shape.replicas[s] = replicas[DeviceOf(shape, StageId(s))];
  }
  shape.warmup = pipeline.warmup;
  shape.minibatches_per_epoch = pipeline.minibatches;
  if (StepsByRound(schedule.policy)) {
    shape.minibatches_per_epoch *= pipeline.microbatches;
  } else {
    shape.microbatches_per_minibatch = pipeline.microbatches;
  }
  PD_RETURN_IF_ERROR(schedule.check(shape));
  return shape;
}

absl::StatusOr<ScheduleReport> ReportTable(const ScheduleTable& compute_only,
                                           const UnitCosts& costs) {
  PD_ASSIGN_OR_RETURN(std::vector<StageProgram> programs, MakePrograms(compute_only));
  PD_ASSIGN_OR_RETURN(Simulation run, Simulate(programs, OptionsOf(costs, compute_only.shape)));
  return ReportRun(programs, run, compute_only.name);
}

absl::StatusOr<ScheduleReport> ReportSchedule(std::string_view schedule, PipelineSpec pipeline,
                                              const UnitCosts& costs) {
  PD_ASSIGN_OR_RETURN(const ScheduleInfo* info, FindSchedule(schedule));
  pipeline.minibatches = 1;
  PD_ASSIGN_OR_RETURN(ScheduleShape shape, ShapeOf(*info, pipeline));
  if (!info->synchronous) {
    shape.minibatches_per_epoch = SteadyMinibatches(shape);
  }
  PD_ASSIGN_OR_RETURN(std::vector<StageProgram> programs, MakePrograms(schedule, shape));
  PD_ASSIGN_OR_RETURN(Simulation run, Simulate(programs, OptionsOf(costs, shape)));
  ScheduleReport report = ReportRun(programs, run, schedule);
  if (!info->synchronous) ToSteadyState(run, pipeline.microbatches, report);
  return report;
}

}  // namespace pipedream
