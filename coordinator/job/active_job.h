// What the machine keeps of a job that is not over. Private to coordinator/job.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/job/job_machine.h"
#include "coordinator/job/run_feedback.h"

namespace pipedream {

struct JobMachine::ActiveJob {
  Job job;
  std::shared_ptr<const JobSpec> spec;  // job.spec, shared with effects
  int least_workers = 1;                // LeastWorkers(*spec)
  bool plan_only = false;
  bool measure_only = false;
  Duration queued_since{};
  Duration state_since{};

  std::vector<WorkerInfo> workers;  // reserved
  // Measuring.
  std::map<std::string, Profile> profiles;  // by device kind
  std::set<std::string> kinds_missing;
  std::vector<LinkMeasurement> links;
  bool links_missing = false;
  ClusterTopology topology;
  // From planning on.
  std::vector<JobMember> members;                // device by device, in the order of the programs
  std::set<std::string> waiting;                 // workers whose answer the state waits for
  std::set<std::string> done;                    // whose stage ran to its end
  std::unique_ptr<ProgressTracker> progress;     // once running
  std::unique_ptr<RunFeedback> feedback;         // likewise
  bool reconsidered = false;                     // whether another plan would be faster
  std::map<std::string, int64_t> last_sequence;  // of reports, by worker
  int64_t skipped_told = 0;                      // most skipped updates that an event told of

  std::map<std::string, std::vector<StageLedger>> ledgers;  // by worker

  struct Suspect {
    JobFailure failure;
    Duration settle_at;
  };
  std::optional<Suspect> suspect;

  bool dirty = false;  // changed since watchers were told
  Duration notified_at{};
  Duration persisted_at{};

  // Of the workers that sent theirs, as text; empty if none did.
  std::string LedgerText() const;
  StageRef ref() const { return {job.id, job.attempt}; }
  const JobMember* FindMember(const std::string& worker_id) const {
    for (const JobMember& member : members)
      if (member.worker.id == worker_id) return &member;
    return nullptr;
  }
  bool Uses(const std::string& worker_id) const {
    for (const WorkerInfo& worker : workers)
      if (worker.id == worker_id) return true;
    return false;
  }
};

}  // namespace pipedream
