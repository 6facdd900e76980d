// What a schedule costs, on paper: from a name or a table and the time that units of work take, to
// the figures by which schedules are compared. Pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/schedule/schedules.h"
#include "common/schedule/simulate.h"

namespace pipedream {

// In any unit of time. Of a whole device's share of the model and one microbatch; a device with
// several stages spends an equal part on each. All devices have equal shares.
struct UnitCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double step = 0;
  double link_latency = 0;    // of every boundary between devices, one way
  double link_bandwidth = 0;  // bytes per unit of time; 0: unlimited
  double boundary_bytes = 0;  // of an activation or its gradient, per microbatch
};

SimulateOptions OptionsOf(const UnitCosts& costs, const ScheduleShape& shape);

// A pipeline in a user's words.
struct PipelineSpec {
  int devices = 4;
  int chunks = 0;             // stages per device; 0: 2 where the schedule takes several, else 1
  std::vector<int> replicas;  // of each device's stages; one for all; empty: 1
  int microbatches = 8;       // of a minibatch; of schedules that step by round: of all together
  int64_t minibatches = 1;
  std::vector<int> warmup;  // as ScheduleShape::warmup
};
// The shape in which `schedule` runs on it; schedules that step by round get minibatches of one
// microbatch. kInvalidArgument names what it cannot do.
absl::StatusOr<ScheduleShape> ShapeOf(const ScheduleInfo& schedule, const PipelineSpec& pipeline);

struct DeviceReport {
  Peer worker;
  double peak_activations = 0;  // what one microbatch leaves on the device: 1
  int weight_copies = 1;        // of its stages, the most
  int64_t staleness = 0;        // updates, likewise
  double idle = 0;              // share of the makespan
};

struct ScheduleReport {
  std::string schedule;
  WeightPolicy policy = WeightPolicy::kFlush;
  int devices = 0, chunks = 0;
  int64_t microbatches = 0;  // that `makespan` is the time of
  double makespan = 0;
  double ideal = 0;   // the work of the busiest device in that time
  double bubble = 0;  // makespan - ideal
  double idle = 0;    // share of the makespan in which devices do not work, of all together
  double per_microbatch = 0;
  // The most of any device, as in DeviceReport.
  double peak_activations = 0;
  int weight_copies = 1;
  int64_t staleness = 0;
  double messages_per_microbatch = 0;  // between devices, both directions, of all links
  std::vector<DeviceReport> workers;   // in the order of WorkersOf
};

// Plays the table, a run's compute instructions, and reports on all of it. Errors as MakePrograms
// and Simulate.
absl::StatusOr<ScheduleReport> ReportTable(const ScheduleTable& compute_only,
                                           const UnitCosts& costs);

// Reports on a schedule as it is in the long run: of a synchronous one, one minibatch of
// pipeline.microbatches; of an asynchronous one, so many microbatches in the steady state, that is
// from the middle of a run that is long enough. pipeline.minibatches has no bearing.
absl::StatusOr<ScheduleReport> ReportSchedule(std::string_view schedule, PipelineSpec pipeline,
                                              const UnitCosts& costs);

}  // namespace pipedream
