#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace pipedream {

// One thread that runs tasks in the order in which they came, and `tick` at least every `period`.
class EventLoop {
 public:
  EventLoop(Duration period, std::function<void()> tick)
      : period_(period), tick_(std::move(tick)) {}
  ~EventLoop() { Stop(); }
  // Once; what was posted before runs first.
  void Start() {
    thread_ = std::thread([this] { Loop(); });
  }
  // Runs what is queued, then joins. Idempotent. Not on the loop's own thread.
  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyAll();
    if (thread_.joinable()) thread_.join();
  }

  // Thread-safe. False once stopping: the task is dropped.
  bool Post(std::function<void()> task) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return false;
      tasks_.push_back(std::move(task));
    }
    changed_.NotifyOne();
    return true;
  }

  // Runs `function` on the loop and waits for its value; none once stopping. Not on the loop.
  template <typename Function>
  auto Call(Function function) -> std::optional<decltype(function())> {
    auto promise = std::make_shared<std::promise<decltype(function())>>();
    auto future = promise->get_future();
    if (!Post([promise, &function] { promise->set_value(function()); })) return std::nullopt;
    return future.get();
  }

 private:
  void Loop() {
    while (true) {
      std::deque<std::function<void()>> tasks;
      {
        MutexLock lock(mutex_);
        if (tasks_.empty() && !stopping_) changed_.WaitFor(mutex_, period_);
        tasks.swap(tasks_);
        if (tasks.empty() && stopping_) return;
      }
      for (auto& task : tasks) task();
      tick_();
    }
  }

  const Duration period_;
  const std::function<void()> tick_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ PD_GUARDED_BY(mutex_);
  bool stopping_ PD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace pipedream
