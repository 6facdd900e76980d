// Candidates of a plan and how they compare.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/planner/costs.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/search.h"

namespace pipedream {

// A partition with what it costs on the workers it would use.
struct Candidate {
  Partition partition;
  std::string config;  // "2-1"
  int workers = 0;
  double bandwidth = 0;  // between them, bytes per second
  double step_s = 0;
  double bytes = 0;         // moved per minibatch
  std::vector<int> warmup;  // per stage
  std::vector<MemoryPrediction> memory;
  int fullest_stage = 0;
  int64_t needed_bytes = 0;     // of the fullest stage
  int64_t available_bytes = 0;  // on the smallest worker; 0: not known
  bool fits() const { return available_bytes == 0 || needed_bytes <= available_bytes; }
};

// Rate, then bytes, memory, workers, stages, cut order.
bool Better(const Candidate& a, const Candidate& b);

// What one request means: workers in order, the profile that decides, where cuts may be. Borrows
// the request.
class CandidateSource {
 public:
  // Checks the request; kInvalidArgument names the field.
  static absl::StatusOr<CandidateSource> Create(const PlanRequest& request);

  Candidate Measure(Partition partition) const;
  // The best partition that fits, in at most `max_replicas` replicas on at least `min_workers`
  // workers; nullopt if none does.
  std::optional<Candidate> Search(int max_replicas, int min_workers) const;
  // The one that lacks least memory; nullopt if the options leave no partition at all.
  std::optional<Candidate> Smallest() const;

  int workers() const { return static_cast<int>(order_.size()); }
  const std::vector<int>& order() const { return order_; }  // devices, as stages take them
  int max_replicas() const { return max_replicas_; }        // by options and schedule
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
  absl::Status FindCuts();
  std::vector<WorkerRange> Ranges(int min_workers) const;
  SearchLimits Limits(const WorkerRange& range, int max_replicas) const;
  int64_t MemoryOf(int workers) const;

  const PlanRequest* request_;
  const Profile* profile_ = nullptr;
  bool flush_ = false;
  int max_replicas_ = 1;
  std::vector<int> order_;
  std::vector<double> bandwidths_;  // element k: among k + 1 workers
  std::vector<bool> cut_;
  std::vector<bool> significant_;
};

}  // namespace pipedream
