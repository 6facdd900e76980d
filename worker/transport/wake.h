// Ways to wake a thread that polls descriptors.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <set>
#include <utility>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/mutex.h"

namespace pipedream {

// An eventfd: readable from Notify until Drain. Thread-safe.
class Wake {
 public:
  static absl::StatusOr<Wake> Create();
  void Notify() const;
  void Drain() const;
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// One blocking operation that another thread may end. Thread-safe.
class Cancellation {
 public:
  explicit Cancellation(Wake wake) : wake_(std::move(wake)) {}
  // The first cause wins.
  void Cancel(const absl::Status& cause);
  // OK until cancelled.
  absl::Status cause() const;
  const Wake& wake() const { return wake_; }

 private:
  Wake wake_;
  mutable Mutex mutex_;
  absl::Status cause_ PD_GUARDED_BY(mutex_);
};

// The operations in progress, to end them all at once. Thread-safe.
class CancellationSet {
 public:
  void Add(Cancellation* operation);
  void Remove(Cancellation* operation);
  void CancelAll(const absl::Status& cause);

 private:
  Mutex mutex_;
  std::set<Cancellation*> operations_ PD_GUARDED_BY(mutex_);
};

// Waits until `fd` has one of the poll `events` (or a hang-up or error, which the next read or
// write tells). kDeadlineExceeded at `deadline` (on SystemClock), or what cancels `operation`. A
// negative fd waits for operation.wake() alone, which is drained; then OK says that someone
// notified it.
absl::Status PollUntil(int fd, short events, Duration deadline, const Cancellation& operation);

// A poll time-out in ms, rounded up, for what is left until `deadline`.
int PollTimeoutMs(Duration deadline);

}  // namespace pipedream
