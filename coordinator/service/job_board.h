// The newest state of jobs, for those who read and watch them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "coordinator/job/job.h"

namespace pipedream {

// Thread-safe. Keeps jobs that are not over and the last `keep` that are; the store has them all.
class JobBoard {
 public:
  explicit JobBoard(size_t keep = 200) : keep_(keep) {}

  void Publish(std::shared_ptr<const Job> job);
  // Wakes all waiters for good.
  void Close();

  struct View {
    std::shared_ptr<const Job> job;  // null: not on the board
    int64_t version = 0;             // grows with every Publish of the job
    bool closed = false;
  };
  View Get(const std::string& id) const;
  // Until the job's version is above `version`, the board is closed, or `timeout`.
  View WaitAbove(const std::string& id, int64_t version, Duration timeout);

 private:
  View GetLocked(const std::string& id) const PD_REQUIRES(mutex_);
  const size_t keep_;
  mutable Mutex mutex_;
  CondVar changed_;
  struct Entry {
    std::shared_ptr<const Job> job;
    int64_t version = 0;
  };
  std::map<std::string, Entry> jobs_ PD_GUARDED_BY(mutex_);
  std::deque<std::string> over_ PD_GUARDED_BY(mutex_);
  int64_t next_version_ PD_GUARDED_BY(mutex_) = 1;
  bool closed_ PD_GUARDED_BY(mutex_) = false;
};

}  // namespace pipedream
