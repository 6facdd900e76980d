// What the job machine wants done. The coordinator's loop first stores PersistJob, AppendEvent and
// StoreProfile of one event in one transaction, then carries out the rest in order.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/profile.h"
#include "common/plan/topology.h"
#include "coordinator/cluster/link_probes.h"
#include "coordinator/cluster/worker_info.h"
#include "coordinator/job/events.h"
#include "coordinator/job/job.h"

namespace pipedream {

// A job as workers need it.
struct JobContext {
  StageRef ref;
  std::shared_ptr<const JobSpec> spec;
  RunShape run;
};

struct JobMember {
  int stage = 0;
  int replica = 0;
  WorkerInfo worker;
};

struct PlanAnswer {
  Plan plan;
  std::vector<Profile> profiles;  // one per device kind
  ClusterTopology topology;
  std::vector<std::string> warnings;
};

struct PersistJob {
  Job job;
};
struct AppendEvent {
  std::string job_id;
  JobEvent event;
};
struct StoreProfile {
  std::string key;
  Profile profile;
};
// The job changed: `job` is what watchers and readers get from now on.
struct NotifyWatchers {
  std::shared_ptr<const Job> job;
};
struct AnswerPlan {
  std::string job_id;
  absl::StatusOr<PlanAnswer> answer;
};
struct StartProfile {  // -> ProfileDone
  JobContext job;
  WorkerInfo worker;
};
struct MeasureLinks {  // -> LinksMeasured
  JobContext job;
  std::vector<LinkProbe> probes;
};
struct ComputePlan {  // -> PlanDone
  JobContext job;
  std::map<std::string, Profile> profiles;  // by device kind
  ClusterTopology topology;
};
// Would another plan be faster than `plan`, by what the run has measured? -> PlanReconsidered
struct ReconsiderPlan {
  JobContext job;
  std::map<std::string, Profile> profiles;
  ClusterTopology topology;  // as measured by the run
  Plan plan;
};
struct PrepareStages {  // -> StagePrepared of every member
  JobContext job;
  Plan plan;
  std::shared_ptr<const std::vector<StageProgram>> programs;
  std::vector<JobMember> members;  // in the order of programs
};
struct StartStages {  // -> StageStarted of every member
  StageRef ref;
  std::vector<JobMember> members;
};
struct AbortStage {  // -> StageAborted
  StageRef ref;
  WorkerInfo worker;
  std::string cause;
};
struct CollectResult {  // fetches weights, exports the model -> WeightsCollected
  JobContext job;
  std::vector<JobMember> members;  // replica 0 of every stage
  std::string ledger{};            // its text; empty: there is none
};
// The ledger of a job that ended otherwise, as far as it is known. (A job that succeeds has its in
// CollectResult.)
struct StoreLedger {
  std::string job_id;
  std::string ledger;
};
struct StartVerify {  // -> VerifyDone
  std::shared_ptr<const VerifyOrder> order;
  WorkerInfo worker;
};
struct AnswerVerify {
  std::string id;
  absl::StatusOr<VerifyReport> answer;
};
// Calls in progress for the job, except AbortStage, are pointless now.
struct CancelCalls {
  std::string job_id;
};

using Effect =
    std::variant<PersistJob, AppendEvent, StoreProfile, NotifyWatchers, AnswerPlan, StartProfile,
                 MeasureLinks, ComputePlan, ReconsiderPlan, PrepareStages, StartStages, AbortStage, CollectResult,
                 StoreLedger, StartVerify, AnswerVerify, CancelCalls>;

}  // namespace pipedream
