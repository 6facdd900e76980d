#include "client/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

std::atomic<int> signal_pipe{-1};
std::atomic<int> interrupts{0};

void OnSignal(int number) {
  int saved = errno;
  // Whoever is in a hurry presses twice.
  if (number == SIGINT && interrupts.fetch_add(1) >= 1) _exit(130);
  char byte = static_cast<char>(number);
  [[maybe_unused]] ssize_t n = write(signal_pipe.load(), &byte, 1);
  errno = saved;
}

}  // namespace

struct InterruptScope::State {
  int pipe[2];
  struct sigaction old_int, old_term;
  std::thread thread;
  mutable Mutex mutex;
  CondVar arrived;
  int first PD_GUARDED_BY(mutex) = 0;
  std::function<void()> callback PD_GUARDED_BY(mutex);

  void Run() {
    char byte;
    while (true) {
      ssize_t n = read(pipe[0], &byte, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0 || byte == 0) return;
      MutexLock lock(mutex);
      if (first == 0) first = byte;
      arrived.NotifyAll();
      // Under the lock, so that SetCallback waits for it; callbacks only cancel a call.
      if (callback) callback();
    }
  }
};

InterruptScope::InterruptScope() : state_(std::make_unique<State>()) {
  PIPEDREAM_CHECK(signal_pipe.load() == -1);
  PIPEDREAM_CHECK(pipe2(state_->pipe, O_CLOEXEC) == 0);
  interrupts = 0;
  signal_pipe = state_->pipe[1];
  state_->thread = std::thread([state = state_.get()] { state->Run(); });
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &state_->old_int);
  sigaction(SIGTERM, &action, &state_->old_term);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &state_->old_int, nullptr);
  sigaction(SIGTERM, &state_->old_term, nullptr);
  char stop = 0;
  [[maybe_unused]] ssize_t n = write(state_->pipe[1], &stop, 1);
  state_->thread.join();
  signal_pipe = -1;
  close(state_->pipe[0]);
  close(state_->pipe[1]);
}

int InterruptScope::signal() const {
  MutexLock lock(state_->mutex);
  return state_->first;
}

void InterruptScope::SetCallback(std::function<void()> callback) {
  MutexLock lock(state_->mutex);
  state_->callback = std::move(callback);
  if (state_->first != 0 && state_->callback) state_->callback();
}

bool InterruptScope::WaitFor(double seconds) {
  MutexLock lock(state_->mutex);
  Duration end = SystemClock()->Now() + FromSeconds(seconds);
  while (state_->first == 0) {
    Duration left = end - SystemClock()->Now();
    if (left <= Duration(0)) return false;
    state_->arrived.WaitFor(state_->mutex, left);
  }
  return true;
}

}  // namespace pipedream
