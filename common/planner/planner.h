// The planner: from what a model costs and what a cluster offers to a plan with its reasons. A pure
// function: same request, same plan, always.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/profile.h"
#include "common/plan/topology.h"
#include "common/schedule/schedule_table.h"

namespace pipedream {

struct PlanRequest {
  // One per device kind of the topology, all of the same model at the same microbatch size. Workers
  // count as equal: the slowest kind among those used decides.
  std::vector<Profile> profiles;
  // The workers that the job may use. memory_bytes 0 means that no limit is known.
  ClusterTopology topology;
  // How candidates are compared: "measured"; or, to compare with the literature, "code", "paper" or
  // "duplex", which know one bandwidth (the slowest) and equal workers.
  std::string rule = "measured";
  std::string schedule = "pipedream";
  int chunks = 0;  // stages per device; 0, 1: the schedule's least
  // A schedule of the user's own, in place of `schedule`: it says stages, replicas and devices.
  std::shared_ptr<const ScheduleTable> table;
  int microbatches = 1;          // per minibatch
  int64_t batch_size = 0;        // checked against the profile's microbatch size; 0: not checked
  int stages = 0;                // exactly so many; 0: free
  int workers = 0;               // at most so many; 0: all
  int max_replicas = 0;          // per stage; 0: no limit
  std::vector<int> warmup;       // per stage, REQUIRES stages; empty: the schedule's rule
  bool global_norm = false;      // updates look at the whole model's gradient
  bool may_recompute = true;     // stages that would not fit otherwise may compute again
  bool recompute = false;        // all do: backward computes the forward pass again, all but ...
  std::vector<int> checkpoints;  // ... the outputs of these forward nodes
  int channel_slots = 2;         // messages that a channel holds at each end
  bool use_all_workers = false;  // as the published optimizer; else workers may stay idle
  // A stage must hold a node with parameters, or one with more than this share of the whole compute
  // time, unless `stages` cannot be had otherwise.
  double negligible_share = 0.002;
};

// Chooses cuts and replicas (docs/planner.md): the plan with the shortest predicted minibatch among
// divisions of the nodes, in their order, into stages with replicas, whose memory fits. By the rule
// "paper" all divisions are looked at; schedules for which that has no formula are played instead
// (rule "simulated"), on the best divisions by the formula nearest to them. Ties go to fewer bytes
// sent, less peak memory, fewer workers, fewer stages, earlier cuts. Never worse than data
// parallelism, the straight pipeline or one worker, which are listed in `alternatives`, unless the
// schedule itself forbids them. A cut that parts the readers of one parameter is taken only if
// there is no plan without, and by schedules that allow it. Every field of Plan is set but
// planning_s, which only a clock can tell. kInvalidArgument: a field of the request, with its value
// and what is possible. kResourceExhausted: no plan fits in memory; says what the best one needs,
// of which stage, and what a worker has.
absl::StatusOr<Plan> MakePlan(const PlanRequest& request);

// What a plan that was made before, or edited, would cost now. Of `plan` it takes the schedule, and
// of each stage nodes, workers, warmup and recompute. Everything else is set anew. kInvalidArgument
// names the stage and what does not fit: a worker that the topology lacks or that two stages use, a
// node that reads from a later stage, a parameter whose readers are parted. kResourceExhausted: it
// does not fit in memory.
absl::StatusOr<Plan> EvaluatePlan(const PlanRequest& request, const Plan& plan);

}  // namespace pipedream
