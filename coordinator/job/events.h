// What happens to jobs. Answers of workers carry the job's attempt; those of an attempt that is
// over are ignored.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/job/verify_report.h"
#include "common/plan/plan.h"
#include "common/plan/profile.h"
#include "common/schedule/ledger.h"
#include "common/schedule/stage_program.h"
#include "coordinator/cluster/link_probes.h"
#include "coordinator/cluster/worker_info.h"
#include "coordinator/job/job.h"
#include "coordinator/job/progress_tracker.h"

namespace pipedream {

// When an event happened.
struct Time {
  Duration steady{};    // for differences
  int64_t unix_us = 0;  // for people
};

struct StageRef {
  std::string job_id;
  int64_t attempt = 0;
  auto operator<=>(const StageRef&) const = default;
};

// A plan and its programs, programs[WorkerIndex(stage, replica)].
struct PlannedRun {
  Plan plan;
  std::shared_ptr<const std::vector<StageProgram>> programs;
};

// The spec is valid, all its files are present.
struct Submitted {
  std::string job_id;
  JobSpec spec;
  RunShape run;
  std::vector<std::string> warnings;
  bool plan_only = false;  // ends after planning with AnswerPlan; nothing is stored
  bool measure_only = false;  // with plan_only: ends before planning, with an empty plan
};
struct CancelRequested {
  std::string job_id;
};
struct WorkerRegistered {
  WorkerInfo info;  // with id; not known, or lost before
};
struct WorkerLost {
  std::string worker_id;
  std::string cause;  // "no heartbeat for 3.1 s"
};
struct ProfileDone {
  StageRef ref;
  std::string device_kind;
  absl::StatusOr<Profile> profile;
  std::string worker_id;  // that measured
};
struct LinksMeasured {
  StageRef ref;
  absl::StatusOr<std::vector<LinkMeasurement>> links;
};
struct PlanDone {
  StageRef ref;
  absl::StatusOr<PlannedRun> run;
};
struct PlanReconsidered {
  StageRef ref;
  // Both by what the run has measured.
  struct Answer {
    Plan current;
    Plan best;
  };
  absl::StatusOr<Answer> answer;
};
struct StagePrepared {
  StageRef ref;
  std::string worker_id;
  absl::StatusOr<int64_t> memory_bytes;
};
struct StageStarted {
  StageRef ref;
  std::string worker_id;
  absl::Status status;
};
// A heartbeat's report, its place not yet checked.
struct StageReported {
  enum class State { kPrepared, kRunning, kDone, kFailed };
  StageRef ref;
  std::string worker_id;
  State state = State::kRunning;
  ProgressReport progress{};
  std::optional<JobFailure> failure{};  // with kFailed
  std::vector<JobEvent> log{};
  int64_t sequence = 0;  // of losses, evaluations and log, which may come twice; 0: not numbered
  std::vector<StageLedger> ledger{};  // of the worker's stages, with kDone and kFailed
};
struct WeightsCollected {
  StageRef ref;
  absl::StatusOr<std::string> result_sha256;
};
// Verify a run that succeeded on an idle worker. AnswerVerify answers; a CancelRequested for the id
// ends it early.
struct VerifyOrder {
  std::string id;  // of this verification; no job's
  std::shared_ptr<const JobSpec> spec;
  RunShape run;
  Plan plan;
  RunLedger ledger;
  std::vector<JobLoss> curve;
  std::string result_sha256;
  int64_t minibatches = 0;  // 0: as many as take budget_s
  double budget_s = 10;
};
struct VerifyRequested {
  std::shared_ptr<const VerifyOrder> order;
};
struct VerifyDone {
  std::string id;
  absl::StatusOr<VerifyReport> report;
};
struct StageAborted {
  StageRef ref;
  std::string worker_id;
  absl::Status status;
};
// The job could not be stored; it must not go on as if it were.
struct StoreFailed {
  std::string job_id;
  absl::Status status;
};
// The process ends: jobs that are not queued fail with COORDINATOR_STOPPED.
struct CoordinatorStopping {};
// Comes every 100 ms or so; leases, time-outs and settling depend on it.
struct Tick {};

using Event = std::variant<Submitted, CancelRequested, WorkerRegistered, WorkerLost, ProfileDone,
                           LinksMeasured, PlanDone, PlanReconsidered, StagePrepared, StageStarted, StageReported,
                           WeightsCollected, VerifyRequested, VerifyDone, StageAborted, StoreFailed,
                           CoordinatorStopping, Tick>;

}  // namespace pipedream
