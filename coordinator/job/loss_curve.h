// The training loss over a run of any length in a bounded number of points.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "coordinator/job/job.h"

namespace pipedream {

// Points of several replicas and of neighbouring minibatches are merged, weighted by samples: each
// point covers a span of `width` minibatches, a power of two that doubles when there would be more
// than `max_points`. Not thread-safe.
class LossCurve {
 public:
  explicit LossCurve(int64_t max_points = 2000) : max_points_(max_points) {}
  // Points with no samples or a negative minibatch are ignored.
  void Add(const JobLoss& point);
  // In order of minibatches.
  std::vector<JobLoss> points() const;
  // Mean over the samples of the latest `minibatches` minibatches, at least; 0 without any.
  double RecentMean(int64_t minibatches) const;
  bool empty() const { return buckets_.empty(); }

 private:
  void Insert(const JobLoss& point);
  const int64_t max_points_;
  int64_t width_ = 1;
  std::map<int64_t, JobLoss> buckets_;  // by first_minibatch / width_
};

}  // namespace pipedream
