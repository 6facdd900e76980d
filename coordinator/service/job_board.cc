#include "coordinator/service/job_board.h"

#include <algorithm>
#include <utility>

namespace pipedream {

void JobBoard::Publish(std::shared_ptr<const Job> job) {
  {
    MutexLock lock(mutex_);
    Entry& entry = jobs_[job->id];
    bool was_over = entry.job != nullptr && IsTerminal(entry.job->state);
    entry.version = next_version_++;
    if (IsTerminal(job->state) && !was_over) over_.push_back(job->id);
    entry.job = std::move(job);
    while (over_.size() > keep_) {
      jobs_.erase(over_.front());
      over_.pop_front();
    }
  }
  changed_.NotifyAll();
}

void JobBoard::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  changed_.NotifyAll();
}

JobBoard::View JobBoard::GetLocked(const std::string& id) const {
  auto it = jobs_.find(id);
  if (it == jobs_.end()) return {nullptr, 0, closed_};
  return {it->second.job, it->second.version, closed_};
}

JobBoard::View JobBoard::Get(const std::string& id) const {
  MutexLock lock(mutex_);
  return GetLocked(id);
}

JobBoard::View JobBoard::WaitAbove(const std::string& id, int64_t version, Duration timeout) {
  MutexLock lock(mutex_);
  auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!closed_) {
    View view = GetLocked(id);
    auto left = deadline - std::chrono::steady_clock::now();
    if (view.job == nullptr || view.version > version || left <= Duration::zero()) break;
    changed_.WaitFor(mutex_, left);
  }
  return GetLocked(id);
}

}  // namespace pipedream
