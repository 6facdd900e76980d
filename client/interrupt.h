// Ctrl-C and SIGTERM as something a waiting command can react to: blocking calls are cancelled from
// a thread of ours, never from the signal handler.
#pragma once

#include <functional>
#include <memory>

namespace pipedream {

// One at a time per process. While it lives, SIGINT and SIGTERM no longer end the process; each
// calls the current callback (on another thread) and is remembered. A second SIGINT ends it.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // 0, or the signal that came first.
  int signal() const;
  // Called for every signal from now on, at once if one has come already. Returns only when no
  // earlier callback is running. Null: none.
  void SetCallback(std::function<void()> callback);
  // Waits, up to `seconds`; true if a signal came.
  bool WaitFor(double seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pipedream
