// A whole job in one thread: every stage replica's executor, stepped in turn over local channels.
// What real processes compute must equal this bit for bit; tests and the oracle tool run it.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/graph/model.h"
#include "common/job/job_spec.h"
#include "common/schedule/ledger.h"
#include "common/schedule/stage_program.h"
#include "worker/device/device.h"
#include "worker/engine/recompute.h"
#include "worker/engine/span_recorder.h"
#include "worker/engine/stage_monitor.h"

namespace pipedream {

struct SimulationOptions {
  std::shared_ptr<const Model> model;
  JobSpec spec;  // resolved; names the schedule
  RunShape run;
  std::vector<int> stage_of;   // per forward node of the training graph
  std::vector<int> replicas;   // per stage
  std::vector<int> warmup;     // per stage, or empty: the schedule's rule
  std::vector<int> device_of;  // per stage, or empty: each its own (ScheduleShape)
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> evaluation;  // may be null
  // Which executor steps next is chosen at random from this; results must not depend on it.
  uint64_t interleaving = 0;
  Recompute recompute = {};
  // Where stages allocate; null: the machine's memory without a limit.
  Device* device = nullptr;
  // Run these, in the order of WorkersOf, instead of the named schedule's.
  std::vector<StageProgram> programs;
  // Told of what the workers run, in the order of WorkersOf; or empty.
  std::vector<SpanRecorder*> recorders;
  // Asked between instructions, with the number of minibatches that every stage has finished its
  // updates for; true stops the run there.
  std::function<bool(int64_t minibatches)> stop;
};

struct SimulationResult {
  int64_t minibatches = 0;                 // finished; fewer than the run has if it was stopped
  std::vector<LossSum> loss_sums;          // of every minibatch that has a loss
  std::vector<double> losses;              // mean loss of each of them
  std::vector<EvaluationSum> evaluations;  // per epoch
  std::map<std::string, Tensor> weights;   // parameters and running statistics
  int64_t memory_bytes = 0;                // of all stages
  RunLedger ledger;                        // if the job asks for it
  int64_t skipped_updates = 0;             // StageCounters, of all workers together
  int64_t undone_updates = 0;
  std::vector<StageCounters> counters;  // per worker, in the order of WorkersOf
};

// The shape of the simulated schedule. Errors: as SetStageFlow.
absl::StatusOr<ScheduleShape> ShapeOf(const SimulationOptions& options);

// What the simulated workers run, in the order of WorkersOf. Errors: as ShapeOf and MakePrograms.
absl::StatusOr<std::vector<StageProgram>> SimulatedPrograms(const SimulationOptions& options);

// A run that was stopped has no weights; losses and ledger go as far as each stage came, which may
// be beyond the finished minibatches. kInternal "deadlock" with what every executor waits for,
// should the table be wrong; kInternal if replicas, or stages that share a parameter, end up with
// different bits.
absl::StatusOr<SimulationResult> Simulate(const SimulationOptions& options);

}  // namespace pipedream
