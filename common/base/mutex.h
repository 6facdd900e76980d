// std::mutex with clang's thread-safety annotations. (The packaged absl::Mutex is not instrumented
// for ThreadSanitizer.) Fields say who guards them: `int x_ PD_GUARDED_BY(mutex_);`
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define PD_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define PD_THREAD_ATTRIBUTE(x)
#endif
#define PD_GUARDED_BY(m) PD_THREAD_ATTRIBUTE(guarded_by(m))
#define PD_REQUIRES(m) PD_THREAD_ATTRIBUTE(requires_capability(m))
#define PD_EXCLUDES(m) PD_THREAD_ATTRIBUTE(locks_excluded(m))

namespace pipedream {

class PD_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void Lock() PD_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void Unlock() PD_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class PD_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PD_THREAD_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() PD_THREAD_ATTRIBUTE(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits happen under the mutex they name; spurious wake-ups occur, so loop on the condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) PD_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False on time-out.
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds timeout) PD_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    // system_clock: ThreadSanitizer does not intercept the monotonic form.
    auto status = condition_.wait_until(lock, std::chrono::system_clock::now() + timeout);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace pipedream
