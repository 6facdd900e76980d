#include "coordinator/job/progress_tracker.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/job/optimizer_spec.h"

namespace pipedream {
namespace {

constexpr Duration kRateWindow = std::chrono::seconds(10);
// Long enough that the heartbeat's period hardly shows in a measured step time.
constexpr Duration kStepInterval = std::chrono::seconds(1);
constexpr size_t kMaxStepTimes = 512;

int64_t SamplesAfter(const RunShape& run, int64_t minibatch) {
  int64_t per_epoch = run.minibatches_per_epoch();
  return minibatch / per_epoch * run.train_samples +
         std::min(minibatch % per_epoch * run.batch_size, run.train_samples);
}

// What shows that a stage lives: anything but the time it spends waiting.
bool SamePlace(const StageStatus& a, const StageStatus& b) {
  return a.microbatches_forward == b.microbatches_forward &&
         a.microbatches_backward == b.microbatches_backward && a.updates == b.updates &&
         a.sent_bytes == b.sent_bytes && a.operation == b.operation;
}

}  // namespace

ProgressTracker::ProgressTracker(const JobSpec& spec, const RunShape& run, double predicted_step_s)
    : spec_(spec), run_(run), predicted_step_s_(predicted_step_s) {}

void ProgressTracker::Add(const ProgressReport& report, Duration now) {
  const StageStatus& status = report.status;
  auto [it, first] = stages_.try_emplace({status.stage, status.replica}, status);
  if (first || !SamePlace(it->second, status)) last_change_ = now;
  it->second = status;
  for (const JobLoss& loss : report.losses) curve_.Add(loss);
  for (const JobEvaluation& part : report.evaluations) {
    auto [at, fresh] = evaluations_.try_emplace(part.epoch, part);
    if (fresh) continue;
    JobEvaluation& sum = at->second;
    sum.loss_sum += part.loss_sum;
    sum.correct = sum.correct < 0 || part.correct < 0 ? -1 : sum.correct + part.correct;
    sum.positions += part.positions;
    sum.samples += part.samples;
  }
  if (status.stage == 0) UpdatePosition(now);
}

// The first stage runs a minibatch's last backward, so its count says what is complete.
void ProgressTracker::UpdatePosition(Duration now) {
  int64_t backward = 0;
  for (const auto& [place, status] : stages_)
    if (place.first == 0) backward += status.microbatches_backward;
  int64_t total = run_.minibatches_per_epoch() * run_.epochs;
  int64_t minibatch = std::min(backward / std::max(run_.microbatches, 1), total);
  if (minibatch <= minibatch_) return;
  minibatch_ = minibatch;
  recent_.push_back({now, SamplesAfter(run_, minibatch)});
  while (recent_.size() > 2 && now - recent_.front().time > kRateWindow) recent_.pop_front();
  if (anchor_minibatch_ < 0) {  // start-up is over with the first minibatch
    anchor_ = now;
    anchor_minibatch_ = minibatch;
  } else if (now - anchor_ >= kStepInterval) {
    if (step_times_.size() == kMaxStepTimes) {  // keep every other one: still spread over the run
      for (size_t i = 0; 2 * i < step_times_.size(); ++i) step_times_[i] = step_times_[2 * i];
      step_times_.resize(kMaxStepTimes / 2);
    }
    step_times_.push_back(ToSeconds(now - anchor_) /
                          static_cast<double>(minibatch - anchor_minibatch_));
    anchor_ = now;
    anchor_minibatch_ = minibatch;
  }
}

void ProgressTracker::Finish() { minibatch_ = run_.minibatches_per_epoch() * run_.epochs; }

double ProgressTracker::Rate() const {
  if (recent_.size() < 2) return 0;
  double seconds = ToSeconds(recent_.back().time - recent_.front().time);
  if (seconds <= 0) return 0;
  return static_cast<double>(recent_.back().samples - recent_.front().samples) / seconds;
}

JobProgress ProgressTracker::Snapshot() const {
  JobProgress progress;
  progress.minibatch = minibatch_;
  progress.minibatches = run_.minibatches_per_epoch() * run_.epochs;
  progress.epochs = run_.epochs;
  progress.epoch = std::min(minibatch_ / run_.minibatches_per_epoch(), run_.epochs);
  progress.samples = SamplesAfter(run_, minibatch_);
  progress.loss = curve_.RecentMean(10);
  progress.samples_per_s = Rate();
  int64_t rest = run_.train_samples * run_.epochs - progress.samples;
  if (progress.samples_per_s > 0)
    progress.eta_s = static_cast<double>(rest) / progress.samples_per_s;
  auto first = stages_.find({0, 0});
  progress.learning_rate =
      LearningRate(spec_.learning_rate,
                   first == stages_.end() ? 0 : std::max<int64_t>(first->second.updates - 1, 0));
  progress.predicted_step_s = predicted_step_s_;
  if (!step_times_.empty()) {
    std::vector<double> times = step_times_;
    auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    progress.measured_step_s = *middle;
  }
  // Whole evaluations only: heartbeats bring them in parts.
  for (const auto& [epoch, evaluation] : evaluations_)
    if (evaluation.samples >= run_.evaluation_samples) progress.evaluations.push_back(evaluation);
  progress.curve = curve_.points();
  for (const auto& [place, status] : stages_) progress.stages.push_back(status);
  return progress;
}

const StageStatus* ProgressTracker::Find(int stage, int replica) const {
  auto it = stages_.find({stage, replica});
  return it == stages_.end() ? nullptr : &it->second;
}

std::string ProgressTracker::DescribeOperations() const {
  std::vector<std::string> parts;
  for (const auto& [place, status] : stages_)
    parts.push_back(fmt::format("stage {} replica {} ({}): {}", place.first, place.second,
                                status.worker_id,
                                status.operation.empty() ? "unknown" : status.operation));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace pipedream
