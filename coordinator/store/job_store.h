// What must survive the coordinator: jobs, their events, idempotency keys, profiles, worker ids.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/profile.h"
#include "coordinator/job/job.h"

namespace pipedream {

struct IdempotencyKey {
  std::string key;
  std::string job_id;
  std::string spec_hash;
  bool operator==(const IdempotencyKey&) const = default;
};

struct StoreBatch {
  std::vector<Job> jobs;                                 // inserted or replaced by id
  std::vector<std::pair<std::string, JobEvent>> events;  // by job id; replaced by sequence
  std::vector<IdempotencyKey> keys;
  std::vector<std::pair<std::string, Profile>> profiles;  // by ProfileKey
  std::vector<std::string> worker_ids;
  bool empty() const {
    return jobs.empty() && events.empty() && keys.empty() && profiles.empty() && worker_ids.empty();
  }
};

struct JobPage {
  std::vector<Job> jobs;
  std::string next_token;  // empty: no more
};

// Thread-safe.
class JobStore {
 public:
  virtual ~JobStore() = default;
  // All or nothing; durable when it returns OK. kAlreadyExists if a key exists already.
  virtual absl::Status Apply(const StoreBatch& batch) = 0;
  // kNotFound.
  virtual absl::StatusOr<Job> GetJob(const std::string& id) = 0;
  // Not terminal, oldest first.
  virtual absl::StatusOr<std::vector<Job>> UnfinishedJobs() = 0;
  // Newest first; only `states` unless empty. `token` of the page before, empty for the first;
  // kInvalidArgument if it is none. Jobs added meanwhile do not move what later pages hold.
  // REQUIRES: limit > 0.
  virtual absl::StatusOr<JobPage> ListJobs(const std::vector<JobState>& states, int limit,
                                           const std::string& token) = 0;
  // Sequence numbers above `after`, ascending, at most `limit`.
  virtual absl::StatusOr<std::vector<JobEvent>> Events(const std::string& job_id, int64_t after,
                                                       int limit) = 0;
  virtual absl::StatusOr<std::optional<IdempotencyKey>> FindKey(const std::string& key) = 0;
  virtual absl::StatusOr<std::map<std::string, Profile>> Profiles() = 0;
  virtual absl::StatusOr<std::vector<std::string>> WorkerIds() = 0;
  // One more than the number of jobs ever stored.
  virtual absl::StatusOr<int64_t> NextJobNumber() = 0;
};

}  // namespace pipedream
