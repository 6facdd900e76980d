#include "worker/transport/wake.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "common/base/status.h"

namespace pipedream {

absl::StatusOr<Wake> Wake::Create() {
  Wake wake;
  wake.fd_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.fd_.valid()) return ResourceExhausted("eventfd: {}", std::strerror(errno));
  return wake;
}

void Wake::Notify() const {
  uint64_t one = 1;
  // Fails only when the counter is full, and then the reader is awake anyway.
  [[maybe_unused]] ssize_t n = write(fd_.get(), &one, sizeof one);
}

void Wake::Drain() const {
  uint64_t count = 0;
  [[maybe_unused]] ssize_t n = read(fd_.get(), &count, sizeof count);
}

void Cancellation::Cancel(const absl::Status& cause) {
  {
    MutexLock lock(mutex_);
    if (cause_.ok()) cause_ = cause.ok() ? Aborted("cancelled") : cause;
  }
  wake_.Notify();
}

absl::Status Cancellation::cause() const {
  MutexLock lock(mutex_);
  return cause_;
}

void CancellationSet::Add(Cancellation* operation) {
  MutexLock lock(mutex_);
  operations_.insert(operation);
}

void CancellationSet::Remove(Cancellation* operation) {
  MutexLock lock(mutex_);
  operations_.erase(operation);
}

void CancellationSet::CancelAll(const absl::Status& cause) {
  MutexLock lock(mutex_);
  for (Cancellation* operation : operations_) operation->Cancel(cause);
}

int PollTimeoutMs(Duration deadline) {
  Duration left = deadline - SystemClock()->Now();
  if (left <= Duration::zero()) return 0;
  constexpr Duration kLongest = std::chrono::hours(1);
  using Ms = std::chrono::milliseconds;
  return static_cast<int>(std::chrono::ceil<Ms>(std::min(left, kLongest)).count());
}

absl::Status PollUntil(int fd, short events, Duration deadline, const Cancellation& operation) {
  while (true) {
    PD_RETURN_IF_ERROR(operation.cause());
    pollfd fds[2] = {{operation.wake().fd(), POLLIN, 0}, {fd, events, 0}};
    int timeout = PollTimeoutMs(deadline);
    int ready = poll(fds, 2, timeout);
    if (ready < 0 && errno != EINTR) return Internal("poll: {}", std::strerror(errno));
    if (ready > 0) {
      if (fds[0].revents != 0) operation.wake().Drain();
      PD_RETURN_IF_ERROR(operation.cause());
      if (fds[1].revents != 0 || fd < 0) return absl::OkStatus();
    }
    if (ready == 0 && SystemClock()->Now() >= deadline) return DeadlineExceeded("time is up");
  }
}

}  // namespace pipedream
