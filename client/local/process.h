// A child process that cannot outlive its parent.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipedream {

struct ProcessOptions {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH unless it has a slash
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  std::string log_path;  // stdout and stderr go there (appended); empty: inherited
  // A group of its own: Ctrl-C of the terminal does not reach it, and Kill reaches its children.
  bool own_group = false;
};

// How a process ended: exit code, or 128 + the signal that ended it.
struct ExitStatus {
  int code = 0;
  std::string ToString() const;  // "exited with code 3", "was ended by signal 9 (Killed)"
};

// Call all functions from one thread, the one that lives as long as the process does: the kernel
// ends the child when the thread that started it ends. The destructor kills and reaps.
class Process {
 public:
  // kNotFound: no such program. The child starts with no signals blocked.
  static absl::StatusOr<Process> Start(const ProcessOptions& options);
  Process() = default;
  ~Process();
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), own_group_(other.own_group_) {}
  Process& operator=(Process&& other) noexcept;

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  // To the whole group if it has its own. Nothing if it is not running.
  void Kill(int signal);
  // Reaps it if it has ended.
  std::optional<ExitStatus> Poll();

 private:
  pid_t pid_ = -1;
  bool own_group_ = false;
};

}  // namespace pipedream
