#include "coordinator/store/memory_store.h"

#include <algorithm>

#include "common/base/status.h"
#include "coordinator/store/page_token.h"

namespace pipedream {

void MemoryStore::FailWith(absl::Status status) {
  MutexLock lock(mutex_);
  fail_ = std::move(status);
}

absl::Status MemoryStore::Apply(const StoreBatch& batch) {
  MutexLock lock(mutex_);
  PD_RETURN_IF_ERROR(fail_);
  for (const IdempotencyKey& key : batch.keys)
    if (keys_.count(key.key))
      return MakeStatus(absl::StatusCode::kAlreadyExists, "idempotency key '{}' exists", key.key);
  for (const Job& job : batch.jobs) {
    auto [it, inserted] = numbers_.try_emplace(job.id, numbers_.size() + 1);
    jobs_[it->second] = job;
  }
  for (const auto& [job_id, event] : batch.events) events_[job_id][event.sequence] = event;
  for (const IdempotencyKey& key : batch.keys) keys_[key.key] = key;
  for (const auto& [key, profile] : batch.profiles) profiles_[key] = profile;
  worker_ids_.insert(batch.worker_ids.begin(), batch.worker_ids.end());
  return absl::OkStatus();
}

absl::StatusOr<Job> MemoryStore::GetJob(const std::string& id) {
  MutexLock lock(mutex_);
  auto it = numbers_.find(id);
  if (it == numbers_.end()) return NotFound("there is no job '{}'", id);
  return jobs_[it->second];
}

absl::StatusOr<std::vector<Job>> MemoryStore::UnfinishedJobs() {
  MutexLock lock(mutex_);
  std::vector<Job> jobs;
  for (const auto& [number, job] : jobs_)
    if (!IsTerminal(job.state)) jobs.push_back(job);
  return jobs;
}

absl::StatusOr<JobPage> MemoryStore::ListJobs(const std::vector<JobState>& states, int limit,
                                              const std::string& token) {
  PD_ASSIGN_OR_RETURN(int64_t below, ParsePageToken(token));
  MutexLock lock(mutex_);
  JobPage page;
  int64_t last = 0;
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
    const auto& [number, job] = *it;
    bool wanted =
        states.empty() || std::find(states.begin(), states.end(), job.state) != states.end();
    if (number >= below || !wanted) continue;
    if (static_cast<int>(page.jobs.size()) == limit) {
      page.next_token = std::to_string(last);
      break;
    }
    page.jobs.push_back(job);
    last = number;
  }
  return page;
}

absl::StatusOr<std::vector<JobEvent>> MemoryStore::Events(const std::string& job_id, int64_t after,
                                                          int limit) {
  MutexLock lock(mutex_);
  std::vector<JobEvent> events;
  const auto& all = events_[job_id];
  for (auto it = all.upper_bound(after); it != all.end() && static_cast<int>(events.size()) < limit;
       ++it)
    events.push_back(it->second);
  return events;
}

absl::StatusOr<std::optional<IdempotencyKey>> MemoryStore::FindKey(const std::string& key) {
  MutexLock lock(mutex_);
  auto it = keys_.find(key);
  if (it == keys_.end()) return std::nullopt;
  return it->second;
}

absl::StatusOr<std::map<std::string, Profile>> MemoryStore::Profiles() {
  MutexLock lock(mutex_);
  return profiles_;
}

absl::StatusOr<std::vector<std::string>> MemoryStore::WorkerIds() {
  MutexLock lock(mutex_);
  return std::vector<std::string>(worker_ids_.begin(), worker_ids_.end());
}

absl::StatusOr<int64_t> MemoryStore::NextJobNumber() {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(numbers_.size()) + 1;
}

}  // namespace pipedream
