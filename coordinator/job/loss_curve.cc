#include "coordinator/job/loss_curve.h"

#include <algorithm>
#include <utility>

namespace pipedream {

void LossCurve::Insert(const JobLoss& point) {
  auto [it, inserted] = buckets_.try_emplace(point.first_minibatch / width_, point);
  if (inserted) return;
  JobLoss& into = it->second;
  into.first_minibatch = std::min(into.first_minibatch, point.first_minibatch);
  into.last_minibatch = std::max(into.last_minibatch, point.last_minibatch);
  into.loss_sum += point.loss_sum;
  into.samples += point.samples;
}

void LossCurve::Add(const JobLoss& point) {
  if (point.samples <= 0 || point.first_minibatch < 0) return;
  Insert(point);
  while (static_cast<int64_t>(buckets_.size()) > max_points_) {
    width_ *= 2;
    std::map<int64_t, JobLoss> old = std::exchange(buckets_, {});
    for (const auto& [bucket, p] : old) Insert(p);
  }
}

std::vector<JobLoss> LossCurve::points() const {
  std::vector<JobLoss> points;
  points.reserve(buckets_.size());
  for (const auto& [bucket, point] : buckets_) points.push_back(point);
  return points;
}

double LossCurve::RecentMean(int64_t minibatches) const {
  if (buckets_.empty()) return 0;
  int64_t from = buckets_.rbegin()->second.last_minibatch - minibatches;
  double sum = 0;
  int64_t samples = 0;
  for (auto it = buckets_.rbegin(); it != buckets_.rend(); ++it) {
    if (samples > 0 && it->second.last_minibatch <= from) break;
    sum += it->second.loss_sum;
    samples += it->second.samples;
  }
  return sum / static_cast<double>(samples);
}

}  // namespace pipedream
