// A job as the coordinator knows it: what users see of it, and nothing else. Values; the message of
// the same name in job.proto documents the fields that are not explained here.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/job/job_spec.h"
#include "common/job/run_shape.h"
#include "common/plan/plan.h"

namespace pipedream {

enum class JobState {
  kQueued,        // waits for workers
  kProfiling,     // workers measure links and the model
  kPartitioning,  // the planner runs
  kPlacing,       // workers prepare their stages
  kStarting,      // channels are being opened
  kRunning,
  kFinishing,  // trained weights are being collected
  kSucceeded,
  kFailed,
  kCancelled,
};
inline constexpr int kJobStates = 10;
bool IsTerminal(JobState state);
std::string_view ToString(JobState state);  // "QUEUED"

// The first cause, with its place.
struct JobFailure {
  std::string reason{};  // "WORKER_LOST"
  std::string message{};
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string worker_id{};
  int stage = -1;  // -1: none
  int replica = -1;
  std::string operation{};
  bool operator==(const JobFailure&) const = default;
};

// Sum over samples of their microbatch's mean loss, for minibatches [first, last].
struct JobLoss {
  int64_t first_minibatch = 0;
  int64_t last_minibatch = 0;
  double loss_sum = 0;
  int64_t samples = 0;
  bool operator==(const JobLoss&) const = default;
};

struct JobEvaluation {
  int64_t epoch = 0;
  double loss_sum = 0;
  int64_t correct = 0;  // -1: the loss counts none
  int64_t positions = 0;
  int64_t samples = 0;
  bool operator==(const JobEvaluation&) const = default;
};

// From one stage replica, cumulative.
struct StageStatus {
  int stage = 0;
  int replica = 0;
  std::string worker_id{};
  int64_t microbatches_forward = 0;
  int64_t microbatches_backward = 0;
  int64_t updates = 0;
  double forward_s = 0;
  double backward_s = 0;
  double step_s = 0;
  double wait_receive_s = 0;
  double wait_send_s = 0;
  double reduce_s = 0;
  double load_s = 0;
  int64_t memory_bytes = 0;
  int64_t sent_bytes = 0;
  int64_t versions_held = 0;
  std::string operation{};
  int64_t skipped_updates = 0;
  double link_bytes_per_s = 0;  // what its slowest way to another stage delivers; 0: not known
  bool operator==(const StageStatus&) const = default;
};

// What the plan expected of a stage replica and what the first steps of the run show.
struct StageComparison {
  int stage = 0;
  int replica = 0;
  std::string worker_id{};
  double predicted_compute_s = 0;  // per microbatch, of all stages of the worker
  double measured_compute_s = 0;
  double predicted_link_s = 0;     // per microbatch, to the next stage and back
  double measured_link_s = 0;      // 0: the transport does not tell
  bool operator==(const StageComparison&) const = default;
};

struct JobProgress {
  int64_t minibatch = 0;
  int64_t minibatches = 0;
  int64_t epoch = 0;
  int64_t epochs = 0;
  int64_t samples = 0;
  double loss = 0;
  double samples_per_s = 0;
  double eta_s = 0;
  double learning_rate = 0;
  double predicted_step_s = 0;
  double measured_step_s = 0;
  std::vector<JobEvaluation> evaluations;
  std::vector<JobLoss> curve;
  std::vector<StageStatus> stages;  // by (stage, replica)
  std::vector<StageComparison> comparisons;
  bool operator==(const JobProgress&) const = default;
};

struct JobEvent {
  int64_t sequence = 0;  // 1, 2, ... within the job
  int64_t time_us = 0;
  std::string level{};   // "info", "warning", "error"
  std::string source{};  // "coordinator" or a worker's id
  std::string message{};
  bool operator==(const JobEvent&) const = default;
};

// Seconds in each state, of kQueued to kFinishing.
struct JobTimings {
  double seconds[static_cast<int>(JobState::kFinishing) + 1] = {};
  double& of(JobState state) { return seconds[static_cast<int>(state)]; }
  double of(JobState state) const { return seconds[static_cast<int>(state)]; }
  bool operator==(const JobTimings&) const = default;
};

struct Job {
  std::string id{};
  JobSpec spec;
  JobState state = JobState::kQueued;
  std::string reason{};
  int64_t attempt = 0;
  int64_t created_us = 0;
  int64_t started_us = 0;
  int64_t finished_us = 0;
  RunShape run;
  std::optional<Plan> plan;
  JobProgress progress;
  std::optional<JobFailure> failure;
  JobTimings timings;
  std::string result_sha256{};
  std::string ledger_sha256{};
  std::vector<std::string> warnings;
  int64_t last_sequence = 0;
  bool operator==(const Job&) const = default;
};

}  // namespace pipedream
