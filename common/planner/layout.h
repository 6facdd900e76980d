// A division of a model onto devices, and what it would cost: in the closed form, in which
// everything overlaps, and as the simulator plays the schedule.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/job/job_schedule.h"
#include "common/plan/plan.h"
#include "common/planner/cluster.h"
#include "common/planner/cut_lattice.h"
#include "common/planner/planner.h"

namespace pipedream {

struct Layout {
  std::vector<int> cuts;                  // before, between and behind the stages
  std::vector<std::vector<int>> devices;  // of the cluster: by group of stages that share them
  std::vector<int> group_of;              // by stage; empty: stage s has group s
  std::vector<int> warmup;                // by stage; empty: the schedule's rule
  auto operator<=>(const Layout&) const = default;

  int stages() const { return static_cast<int>(cuts.size()) - 1; }
  int group(int stage) const { return group_of.empty() ? stage : group_of[stage]; }
  const std::vector<int>& on(int stage) const { return devices[group(stage)]; }
  int replicas(int stage) const { return static_cast<int>(on(stage).size()); }
  int workers() const;
  std::string config() const;  // "2-1", "1-1-1-1 on 2 devices"
};

// What a layout takes per minibatch if every worker, way and port works all the time, and which of
// them is the last to be done.
struct Load {
  enum class Kind { kCompute, kSync, kTransfer };
  double seconds = 0;
  Kind kind = Kind::kCompute;
  int stage = 0;              // kTransfer: the later one
  double longest_compute_s = 0;
};

// Per stage replica, of one microbatch.
struct StageWork {
  double forward_s = 0;
  double backward_s = 0;        // with what is computed again
  double backward_input_s = 0;  // of that
  double step_s = 0;
};

struct Candidate {
  Layout layout;
  double bottleneck_s = 0;  // per minibatch, as the next
  double step_s = 0;
  double bytes = 0;  // between workers
  std::vector<int> warmup;
  std::vector<int> versions;
  std::vector<bool> recompute;
  std::vector<MemoryPrediction> memory;  // of the replica that holds most
  absl::Status refused;                  // by the schedule; then nothing else is known
  int fullest_stage = 0;                 // where most is lacking, or least is left
  int64_t needed_bytes = 0;              // there, on the device
  int64_t available_bytes = 0;           // 0: not known
  int64_t lacking_bytes = 0;             // of all devices together
  bool fits() const { return refused.ok() && lacking_bytes == 0; }
};

// Rate, then bytes, memory, workers, stages, cut order.
bool Better(const Candidate& a, const Candidate& b);

// Borrows everything. Answers are remembered: not for several threads.
class LayoutCosts {
 public:
  LayoutCosts(const PlanRequest& request, const JobSchedule& schedule, const CutLattice& lattice,
              const Cluster& cluster);

  // Without playing: step_s is the closed form's.
  Candidate Estimate(const Layout& layout, std::vector<bool> recompute = {}) const;
  // `recompute`: by stage, those that compute again whether they must or not.
  Candidate Measure(const Layout& layout, std::vector<bool> recompute = {}) const;
  // As the schedule's rule has it, or with stages as far ahead as the links make necessary
  // (planner.md, section 3): the least depth that is about as fast as any.
  Candidate MeasureAtBestDepth(const Layout& layout) const;
  Load Bottleneck(const Layout& layout, const std::vector<bool>& recompute) const;

  const PlanRequest& request() const { return request_; }
  const JobSchedule& schedule() const { return schedule_; }
  const CutLattice& lattice() const { return lattice_; }
  const Cluster& cluster() const { return cluster_; }
  const Profile& profile() const { return request_.profiles[0]; }
  // An update per minibatch, not per microbatch (or round of replicas).
  bool by_minibatch() const { return by_minibatch_; }
  bool drains() const { return drains_; }
  // Warm-up, slots and versions follow from the formula; else from the table.
  bool by_formula() const { return by_formula_; }

  // Forward, backward and update of a stage's nodes for one microbatch, on this device.
  StageWork Work(int from, int to, int device, bool recompute) const;
  double ComputeSeconds(int from, int to, int device) const;
  int64_t ParameterBytes(int from, int to) const;
  // Forwards before the first backward by rule; X: workers in the stage and all later ones.
  int Warmup(const Layout& layout, int stage) const;
  // Seconds of one all-reduce of the stage.
  double SyncSeconds(const Layout& layout, int stage) const;
  // Bytes between two stages per microbatch.
  struct Edge {
    int from = 0, to = 0;
    int64_t forward_bytes = 0;
    int64_t gradient_bytes = 0;
    int forward_items = 0;
    int gradient_items = 0;
  };
  std::vector<Edge> Edges(const Layout& layout) const;

 private:
  struct Sums {
    double forward_s = 0, input_gradient_s = 0, weight_gradient_s = 0, optimizer_s = 0;
    double again_s = 0;  // forward, of what recompute computes again
  };
  struct StageFacts {
    std::vector<int> nodes;
    int64_t parameter_bytes = 0, state_bytes = 0, constant_bytes = 0;
    int64_t kept_bytes = 0;       // by one microbatch, between forward and backward
    int64_t checkpoint_bytes = 0; // of that with recompute
    int64_t workspace_bytes = 0;
    int64_t again_bytes = 0;      // computed again with recompute
  };
  // What a replica holds.
  struct Holdings {
    int slots = 1, versions = 1, gradients = 1;
    bool undo = false;
  };
  const StageFacts& FactsOf(int from, int to) const;
  std::vector<Holdings> RuleHoldings(const Layout& layout, const std::vector<int>& warmup) const;
  MemoryPrediction Memory(const Layout& layout, int stage, const Holdings& holdings,
                          const std::vector<Edge>& edges, bool recompute) const;
  // Forwards ahead with what links make necessary: each link for itself, or all together.
  std::vector<int> Deepened(const Candidate& candidate, bool per_link) const;
  void FillMemory(const std::vector<Holdings>& holdings, const std::vector<Edge>& edges,
                  Candidate* candidate) const;
  double BytesMoved(const Layout& layout, const std::vector<Edge>& edges) const;
  double OwnMicrobatches(int replicas) const;
  // Seconds per minibatch from the closed form's bottleneck.
  double StepSeconds(const Layout& layout, const Load& load) const;
  void Play(const std::vector<Edge>& edges, Candidate* candidate,
            std::vector<Holdings>* holdings) const;

  const PlanRequest& request_;
  const JobSchedule& schedule_;
  const CutLattice& lattice_;
  const Cluster& cluster_;
  bool by_minibatch_ = false;
  bool drains_ = false;
  bool by_formula_ = false;
  std::vector<std::vector<Sums>> sums_;  // by profile and cut: of the nodes before it
  std::vector<int64_t> parameter_bytes_;
  std::vector<bool> checkpoint_;  // by node
  mutable absl::flat_hash_map<std::pair<int, int>, std::unique_ptr<StageFacts>> facts_;
};

}  // namespace pipedream
