// From stage reports to what users see: position in the run, loss, rate, remaining time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/job/job.h"
#include "coordinator/job/loss_curve.h"

namespace pipedream {

// What a heartbeat says about training; counters are cumulative, losses and evaluations are new
// since the last one.
struct ProgressReport {
  StageStatus status{};
  std::vector<JobLoss> losses{};
  std::vector<JobEvaluation> evaluations{};
};

// One attempt of one job. Not thread-safe; deterministic.
class ProgressTracker {
 public:
  // `predicted_step_s` is the plan's.
  ProgressTracker(const JobSpec& spec, const RunShape& run, double predicted_step_s);

  void Add(const ProgressReport& report, Duration now);
  // All stages are done: the counts are complete whatever the last reports said.
  void Finish();
  JobProgress Snapshot() const;
  int64_t minibatch() const { return minibatch_; }  // completed
  // The latest status of a stage replica; null before its first report.
  const StageStatus* Find(int stage, int replica) const;
  // When any counter or operation of any stage last changed; the first report counts.
  Duration last_change() const { return last_change_; }
  // "stage 0 replica 0 (w1): F17; stage 1 ..." of all replicas that reported.
  std::string DescribeOperations() const;

 private:
  void UpdatePosition(Duration now);
  double Rate() const;

  const JobSpec spec_;
  const RunShape run_;
  const double predicted_step_s_;
  std::map<std::pair<int, int>, StageStatus> stages_;
  std::map<int64_t, JobEvaluation> evaluations_;
  LossCurve curve_;
  int64_t minibatch_ = 0;
  Duration last_change_{};
  struct Mark {
    Duration time;
    int64_t samples;
  };
  std::deque<Mark> recent_;  // the last 10 s of changes of position
  Duration anchor_{};        // where the step time being measured began
  int64_t anchor_minibatch_ = -1;
  std::vector<double> step_times_;
};

}  // namespace pipedream
