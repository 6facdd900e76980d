// How a job runs: which stage holds which nodes, on which workers, by which schedule, and what that
// is expected to cost; with its reasons.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipedream {

struct MemoryPrediction {  // bytes, per replica
  int64_t weights = 0;     // all versions
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t activations = 0;  // all slots
  int64_t buffers = 0;      // channels
  int64_t workspace = 0;
  int64_t total() const {
    return weights + gradients + optimizer + activations + buffers + workspace;
  }
  bool operator==(const MemoryPrediction&) const = default;
};

struct PlanStage {
  std::vector<int> nodes;  // forward nodes, ascending in graph order; at least one
  std::string first_node_name;
  std::string last_node_name;
  std::vector<std::string> workers;  // one per replica
  int warmup = 0;                    // forwards before the first backward
  int versions = 1;                  // weight versions alive at most
  double compute_s = 0;              // per microbatch on one replica
  bool recompute = false;            // backward computes the forward pass again
  double sync_s = 0;                 // all-reduce per update
  double send_s = 0;                 // to the next stage, activation and gradient
  int64_t parameter_bytes = 0;
  int64_t sent_bytes = 0;  // per microbatch to the next stage, both directions
  MemoryPrediction memory;
  bool operator==(const PlanStage&) const = default;

  int replicas() const { return static_cast<int>(workers.size()); }
  // Updates between the weights that a microbatch reads and those that it changes, at most.
  int staleness() const { return versions - 1; }
  // "4-11", "4-7, 9", "12".
  std::string node_ranges() const;
};

struct PlanAlternative {
  std::string name;    // "data parallel", "straight pipeline", "one worker"
  std::string config;  // "4", "1-1-1-1"
  double step_s = 0;   // predicted seconds per minibatch; 0: not feasible
  double bottleneck_s = 0;
  std::string reason;  // why it lost, or why it does not fit
  bool operator==(const PlanAlternative&) const = default;
};

struct Plan {
  std::string schedule;  // "pipedream"
  std::string rule;      // cost rule that chose it: "code", "paper", "duplex", "measured"
  std::vector<PlanStage> stages;
  // Device of each stage where some have several (ScheduleShape::device_of); else empty. The stages
  // of a device name the same workers.
  std::vector<int> device_of;
  // How far stages run ahead is left to the schedule; `warmup` of a stage says what it comes to.
  bool own_warmup = false;
  double step_s = 0;  // predicted seconds per minibatch in steady state
  // Seconds per minibatch of the busiest worker, link or port if all of them worked at once: no
  // schedule of this layout is faster.
  double bottleneck_s = 0;
  // How much faster than this plan any other may be, by the rule: 0.02 is 2 %; 0: none is.
  double optimality_gap = 0;
  int64_t moved_bytes = 0;           // per minibatch, between workers
  int64_t data_parallel_bytes = 0;   // what data parallelism over as many workers would move
  double bubble = 0;  // predicted idle share of the busiest stage's row, 0..1
  std::vector<PlanAlternative> alternatives;
  std::vector<std::string> warnings;
  double planning_s = 0;
  bool operator==(const Plan&) const = default;

  // "2-1-1"; with several stages per device "1-1-1-1 on 2 devices".
  std::string config() const;
  int devices() const;
  int workers() const;
  std::vector<int> replicas() const;
  std::vector<int> warmup() const;  // as ScheduleShape::warmup: empty with own_warmup
  // By stage: of the job's learning rate, so that a minibatch weighs the same in every stage though
  // replicas step together once for all of theirs.
  std::vector<double> learning_rate_scales() const;
  // Stage of every forward node, for CutStages.
  std::vector<int> stage_of() const;
};

}  // namespace pipedream
