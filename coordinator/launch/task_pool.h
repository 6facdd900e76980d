#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace pipedream {

// Threads for calls that block. A task never waits for a thread below `max_threads` tasks in
// progress, because members of a pipeline wait for each other's calls. Thread-safe.
class TaskPool {
 public:
  explicit TaskPool(int max_threads = 256) : max_threads_(max_threads) {}
  // Runs what is queued, then joins. Whoever owns tasks that may block for long cancels them first.
  ~TaskPool();
  // False after the destructor began; the task is dropped.
  bool Run(std::function<void()> task);

 private:
  void Work();
  const int max_threads_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ PD_GUARDED_BY(mutex_);
  int idle_ PD_GUARDED_BY(mutex_) = 0;
  bool stopping_ PD_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ PD_GUARDED_BY(mutex_);
};

}  // namespace pipedream
