// JobStore's twin without a disk, for tests. Passes the same contract suite.
#pragma once

#include <map>
#include <set>

#include "common/base/mutex.h"
#include "coordinator/store/job_store.h"

namespace pipedream {

class MemoryStore : public JobStore {
 public:
  absl::Status Apply(const StoreBatch& batch) override;
  absl::StatusOr<Job> GetJob(const std::string& id) override;
  absl::StatusOr<std::vector<Job>> UnfinishedJobs() override;
  absl::StatusOr<JobPage> ListJobs(const std::vector<JobState>& states, int limit,
                                   const std::string& token) override;
  absl::StatusOr<std::vector<JobEvent>> Events(const std::string& job_id, int64_t after,
                                               int limit) override;
  absl::StatusOr<std::optional<IdempotencyKey>> FindKey(const std::string& key) override;
  absl::StatusOr<std::map<std::string, Profile>> Profiles() override;
  absl::StatusOr<std::vector<std::string>> WorkerIds() override;
  absl::StatusOr<int64_t> NextJobNumber() override;
  // From now on Apply answers this (OK: works again).
  void FailWith(absl::Status status);

 private:
  Mutex mutex_;
  absl::Status fail_ PD_GUARDED_BY(mutex_);
  std::map<int64_t, Job> jobs_ PD_GUARDED_BY(mutex_);  // by number
  std::map<std::string, int64_t> numbers_ PD_GUARDED_BY(mutex_);
  std::map<std::string, std::map<int64_t, JobEvent>> events_ PD_GUARDED_BY(mutex_);
  std::map<std::string, IdempotencyKey> keys_ PD_GUARDED_BY(mutex_);
  std::map<std::string, Profile> profiles_ PD_GUARDED_BY(mutex_);
  std::set<std::string> worker_ids_ PD_GUARDED_BY(mutex_);
};

}  // namespace pipedream
