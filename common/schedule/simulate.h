// Plays a lowered schedule on paper: what it would take with given costs. Pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "common/schedule/stage_program.h"
#include "common/schedule/trace.h"

namespace pipedream {

// Seconds per instruction on each worker of a stage.
struct StageCosts {
  double forward_s = 0;
  double backward_s = 0;        // B; also I and W together
  double backward_input_s = 0;  // I
  double step_s = 0;
  double reduce_s = 0;  // R, once all members have come
  double norm_s = 0;    // N, likewise
  double evaluate_s = 0;
};

// Of an edge between two stages. Every two workers have a link of their own in each direction,
// which all their messages share: one occupies it for bytes / bandwidth and arrives `latency_s`
// after that. Before, the sending worker has been busy for as long as it packs the message;
// messages inside a worker cost nothing else. (Unpacking is part of what computes on the message.)
struct LinkCosts {
  double latency_s = 0;
  double bandwidth_bytes_per_s = 0;  // 0: unlimited
  double activation_bytes = 0;       // of F; also of E
  double gradient_bytes = 0;
  double activation_pack_s = 0;  // of F; also of E
  double gradient_pack_s = 0;
};

// How one worker reaches another, where they are not all alike.
struct PathCosts {
  double latency_s = 0;
  double bandwidth_bytes_per_s = 0;  // 0: unlimited
  int out_port = -1;                 // index into ports; -1: shares nothing
  int in_port = -1;
};

struct SimulateOptions {
  std::vector<StageCosts> stages;  // one per stage
  // By stage and replica, where replicas are not alike; then `stages` is not looked at.
  std::vector<std::vector<StageCosts>> replicas;
  std::vector<LinkCosts> links;    // one per edge (EdgesOf); empty: transfers cost nothing
  // From worker a to worker b of n (WorkersOf): element a * n + b; empty: as `links` says. Latency
  // and bandwidth are then these, not those of the edges.
  std::vector<PathCosts> paths;
  // Bytes per second of what several paths share, in each direction. A message takes its turn by
  // the time of its sending, and occupies each of its ports for bytes / bandwidth.
  std::vector<double> ports;
  // A sender waits while so many of its messages have not been received (more on edges that skip
  // stages, see ChannelSlots); 0: never.
  int channel_slots = 0;
  bool record_spans = false;
};

// What a stage replica holds at most.
struct StageUse {
  StageId stage;
  int peak_in_flight = 0;  // activations of so many microbatches kept at once
  int peak_versions = 1;   // weight versions alive at once
  int64_t staleness = 0;   // updates between the version a microbatch reads and the one it enters
};

struct WorkerUse {
  Peer worker;
  double busy_s = 0;       // computing, packing, stepping, reducing
  double bubble = 0;       // the share of the makespan in which it is not
  int peak_in_flight = 0;  // activations of its stages kept at once
  std::vector<StageUse> stages;
};

struct Simulation {
  double makespan_s = 0;
  // Between the backwards of two microbatches at stage 0, a third and two thirds into the run, both
  // the last of their minibatch and round; over the whole run if that is too short.
  double steady_s_per_microbatch = 0;
  double bubble = 0;               // of all workers together
  std::vector<WorkerUse> workers;  // in the order of WorkersOf
  std::vector<Span> spans;         // if asked for; in order of each worker
};

// kInvalidArgument if the costs do not fit the shape; kFailedPrecondition if the schedule comes to
// a standstill (see rule V9).
absl::StatusOr<Simulation> Simulate(const ScheduleTable& table, const SimulateOptions& options);
absl::StatusOr<Simulation> Simulate(const std::vector<StageProgram>& programs,
                                    const SimulateOptions& options);

}  // namespace pipedream
