// Candidates of a plan and how they compare.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/job/job_schedule.h"
#include "common/planner/costs.h"
#include "common/planner/planner.h"
#include "common/planner/search.h"

namespace pipedream {

// A partition with what it costs on the workers it would use.
struct Candidate {
  Partition partition;
  std::string config;          // "2-1", "1-1-1-1 on 2 devices"
  std::vector<int> device_of;  // per stage; empty: each has a device of its own
  int workers = 0;
  double bandwidth = 0;  // between them, bytes per second
  double step_s = 0;
  double bytes = 0;         // moved per minibatch
  std::vector<int> warmup;  // per stage
  std::vector<int> versions;
  std::vector<MemoryPrediction> memory;
  absl::Status refused;  // by the schedule; then nothing below is known
  int fullest_stage = 0;
  int64_t needed_bytes = 0;     // of the fullest worker
  int64_t available_bytes = 0;  // on the smallest worker; 0: not known
  bool fits() const {
    return refused.ok() && (available_bytes == 0 || needed_bytes <= available_bytes);
  }
};

// Rate, then bytes, memory, workers, stages, cut order.
bool Better(const Candidate& a, const Candidate& b);

// Whether copies of a parameter in several stages stay equal: updates wait for all gradients.
bool AllowsTies(WeightPolicy policy);

// What one request means: workers in order, the profile that decides, where cuts may be. Borrows
// the request.
class CandidateSource {
 public:
  // Checks the request; kInvalidArgument names the field. With `part_ties` cuts may part the
  // readers of one parameter.
  static absl::StatusOr<CandidateSource> Create(const PlanRequest& request, bool part_ties);

  Candidate Measure(Partition partition) const;
  // The best partition that is known and fits, in at most `max_replicas` replicas on at least
  // `min_workers` workers; nullopt if none does.
  std::optional<Candidate> Search(int max_replicas, int min_workers) const;
  // The one that lacks least memory; nullopt if the options leave no partition at all.
  std::optional<Candidate> Smallest() const;

  int workers() const { return static_cast<int>(order_.size()); }
  const std::vector<int>& order() const { return order_; }  // devices, as stages take them
  const JobSchedule& schedule() const { return schedule_; }
  // Time and memory by the closed forms of rule "paper".
  bool by_formula() const { return by_formula_; }
  // One stage per device, with replicas as they are best.
  bool free_layout() const;
  int max_replicas() const { return max_replicas_; }  // by options and schedule
  // Of one stage, whatever max_replicas says: more replicas than microbatches of a flush would
  // idle.
  int useful_replicas(int replicas) const;
  const Profile& profile() const { return *profile_; }
  CostModel Costs(int stages) const;

 private:
  // Numbers of workers [low, high] that can be searched at once: one bandwidth, one memory limit.
  struct WorkerRange {
    int low = 1;
    int high = 1;
  };
  explicit CandidateSource(const PlanRequest& request) : request_(&request) {}
  absl::Status FindCuts(bool part_ties);
  std::vector<WorkerRange> Ranges(int min_workers) const;
  SearchLimits Limits(const WorkerRange& range, int max_replicas) const;
  int64_t MemoryOf(int workers) const;
  // With stages, replicas or places that the schedule sets: by device count.
  std::vector<std::vector<int>> FixedReplicas(const WorkerRange& range) const;
  std::optional<Partition> Divide(const std::vector<int>& replicas, double bandwidth,
                                  double memory_weight) const;
  // Divisions worth measuring, the first of each kind the fastest, later ones smaller.
  using Family = std::function<std::optional<Partition>(int attempt)>;
  std::vector<Family> Families(const WorkerRange& range, int max_replicas) const;
  std::optional<Candidate> SearchFamilies(int max_replicas, int min_workers, bool smallest) const;
  void Play(const CostModel& costs, const ScheduleShape& layout, Candidate* candidate,
            std::vector<StageHoldings>* holdings) const;

  const PlanRequest* request_;
  const Profile* profile_ = nullptr;
  JobSchedule schedule_;
  bool by_formula_ = false;
  bool by_minibatch_ = false;
  bool drains_ = false;
  int max_replicas_ = 1;
  std::vector<int> order_;
  std::vector<double> bandwidths_;  // element k: among k + 1 workers
  std::vector<bool> cut_;
  std::vector<bool> significant_;
};

}  // namespace pipedream
