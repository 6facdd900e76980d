// The cost rule "paper" (arXiv 1806.03377, section 3.2) and the memory of a stage.
//
// Stage of nodes [begin, end) with r replicas, C = its compute time for one microbatch, P = its
// parameter bytes, B = bandwidth, a = bytes that cross the cut before it, both directions together:
//   asynchronous: max(C, 4 (r-1)/r P/B) / r  and  a / (B r); a minibatch takes the largest of all
//   stages. An update per minibatch of m microbatches: t = max(ceil(m/r) C / m, a / (B r)); a
//   minibatch of p stages takes, if it drains (flush), (m + p - 1) max t, and then the longest
//   all-reduce, 4 (r-1)/r P/B; else m max t, t with its share of the all-reduce.
#pragma once

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/profile.h"

namespace pipedream {

// What the schedule means for costs.
struct ScheduleCosts {
  bool by_minibatch = false;  // an update per minibatch, not per microbatch (or round of replicas)
  bool drains = false;        // flush: the pipeline is empty at the end of a minibatch
  bool forwards_first = false;  // all forwards of a minibatch before its first backward (gpipe)
  int microbatches = 1;
  int channel_slots = 2;
  std::vector<int> warmup;  // per stage; empty: the schedule's rule
  // Backward computes again what it reads, but for the outputs of `checkpoints` (by node).
  bool recompute = false;
  std::vector<bool> checkpoints;
};

// Sums over a range of nodes.
struct NodeSums {
  double compute_s = 0;  // without optimizer
  double forward_s = 0;  // of that
  double weight_gradient_s = 0;
  double optimizer_s = 0;
  int64_t parameter_bytes = 0;
  int64_t state_bytes = 0;
  int64_t saved_bytes = 0;
  int64_t workspace_bytes = 0;  // the largest
  int64_t again_bytes = 0;      // computed again rather than saved
  void Add(const NodeProfile& node);
};

// What a stage replica holds at most.
struct StageHoldings {
  int slots = 1;      // activations of so many microbatches
  int versions = 1;   // of the weights
  int gradients = 1;  // sums that are open at once
  bool undo = false;  // a copy of the optimizer's state and the running statistics
};

struct StagePart {
  int begin = 0;
  int end = 0;
  int replicas = 1;
  bool operator==(const StagePart&) const = default;
};
using Partition = std::vector<StagePart>;

// Seconds per microbatch in steady state, all replicas together.
struct StageTimes {
  double compute_s = 0;
  double sync_s = 0;  // asynchronous: overlaps compute; flush: added to it
  double receive_s = 0;
  double bottleneck_s = 0;
};

// Borrows the profile.
class CostModel {
 public:
  CostModel(const Profile& profile, ScheduleCosts schedule)
      : profile_(profile), schedule_(std::move(schedule)) {}

  const Profile& profile() const { return profile_; }
  const ScheduleCosts& schedule() const { return schedule_; }
  int nodes() const { return static_cast<int>(profile_.nodes.size()); }

  NodeSums Sums(const StagePart& part) const;
  // One more node; with what recomputation makes of it.
  void AddNode(int node, NodeSums* sums) const;
  // Bytes over the cut before node `begin` per microbatch, both directions; 0 at the model's ends.
  int64_t CutBytes(int begin) const;
  StageTimes Times(const NodeSums& sums, const StagePart& part, double bandwidth) const;
  // Compute of one microbatch on one replica.
  double ComputeSeconds(const NodeSums& sums, int replicas) const;
  // One all-reduce.
  double SyncSeconds(const NodeSums& sums, int replicas, double bandwidth) const;
  // Bytes that the stage receives and all-reduces per minibatch, all replicas together.
  double BytesMoved(const NodeSums& sums, const StagePart& part) const;

  // Forwards before the first backward. `workers`: of this stage and all later ones.
  int Warmup(int stage, int replicas, int workers) const;
  int Versions(int warmup) const;
  // By rule.
  StageHoldings Holdings(const StagePart& part, int warmup) const;
  MemoryPrediction Memory(const NodeSums& sums, const StagePart& part,
                          const StageHoldings& holdings) const;

  // Seconds per minibatch.
  double StepSeconds(const Partition& partition, double bandwidth) const;

 private:
  int MicrobatchesPerReplica(int replicas) const {
    return (schedule_.microbatches + replicas - 1) / replicas;
  }
  const Profile& profile_;
  const ScheduleCosts schedule_;
};

}  // namespace pipedream
