#include "client/local/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/file.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

// Between fork and exec only async-signal-safe calls: other threads may hold locks. Reports errno
// through `report`, which exec closes.
[[noreturn]] void RunChild(const ProcessOptions& options, char** argv, char** envp, pid_t parent,
                           int log, int report) {
  auto fail = [&] {
    int error = errno;
    [[maybe_unused]] ssize_t n = write(report, &error, sizeof error);
    _exit(127);
  };
  if (options.own_group) setpgid(0, 0);
  // SIGKILL: a wedged daemon must not linger either.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (getppid() != parent) _exit(127);  // it ended before the line above
  if (log >= 0 && (dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)) fail();
  if (log >= 0) {
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  execvpe(argv[0], argv, envp);
  fail();
  _exit(127);
}

std::vector<std::string> MergedEnvironment(const ProcessOptions& options) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : options.environment) {
      replaced |= text.starts_with(name + "=");
    }
    if (!replaced) merged.push_back(std::move(text));
  }
  for (const auto& [name, value] : options.environment) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::string ExitStatus::ToString() const {
  if (code > 128) {
    return fmt::format("was ended by signal {} ({})", code - 128, strsignal(code - 128));
  }
  return fmt::format("exited with code {}", code);
}

absl::StatusOr<Process> Process::Start(const ProcessOptions& options) {
  PIPEDREAM_CHECK(!options.argv.empty());
  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> variables = MergedEnvironment(options);
  std::vector<char*> argv = Pointers(arguments), envp = Pointers(variables);
  UniqueFd log;
  if (!options.log_path.empty()) {
    log.Reset(open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!log.valid()) {
      return Unavailable("cannot write {}: {}", options.log_path, std::strerror(errno));
    }
  }
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return ResourceExhausted("pipe: {}", std::strerror(errno));
  UniqueFd report_read(report[0]), report_write(report[1]);
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) return ResourceExhausted("cannot start a process: {}", std::strerror(errno));
  if (pid == 0) {
    RunChild(options, argv.data(), envp.data(), parent, log.get(), report_write.get());
  }
  if (options.own_group) setpgid(pid, pid);  // whoever is first
  Process process;
  process.pid_ = pid;
  process.own_group_ = options.own_group;
  report_write.Reset();
  int error = 0;
  ssize_t n;
  do {
    n = read(report_read.get(), &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  if (n == sizeof error) {
    return MakeStatus(
        error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kFailedPrecondition,
        "cannot run {}: {}", options.argv[0], std::strerror(error));
  }
  return process;
}

Process::~Process() {
  if (pid_ <= 0) return;
  Kill(SIGKILL);
  int status;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(own_group_, other.own_group_);
  return *this;
}

void Process::Kill(int signal) {
  if (pid_ > 0) kill(own_group_ ? -pid_ : pid_, signal);
}

std::optional<ExitStatus> Process::Poll() {
  if (pid_ <= 0) return std::nullopt;
  int status;
  pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended != pid_) return std::nullopt;
  // Its group may still hold children of its own.
  if (own_group_) kill(-pid_, SIGKILL);
  pid_ = -1;
  return ExitStatus{WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)};
}

}  // namespace pipedream
