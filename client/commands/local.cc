#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "client/commands/calls.h"
#include "client/exit_codes.h"
#include "client/local/cluster.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {
namespace {

constexpr Duration kRegisterPatience = std::chrono::seconds(60);
constexpr Duration kStopPatience = std::chrono::seconds(5);

// Signals that this command handles, kept pending until asked for; restores the mask at the end.
class PendingSignals {
 public:
  PendingSignals() {
    sigemptyset(&set_);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, &old_);
  }
  ~PendingSignals() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  // Waits at most `time`; 0 if none came.
  int Next(Duration time, siginfo_t* info) {
    timespec wait{static_cast<time_t>(time / std::chrono::seconds(1)),
                  static_cast<long>((time % std::chrono::seconds(1)).count())};
    int signal = std::max(0, sigtimedwait(&set_, info, &wait));
    if (signal != 0 && signal != SIGCHLD) ending_ = signal;
    return signal;
  }
  // A request to end that is waiting, without waiting for one.
  int Ending() {
    siginfo_t info;
    while (ending_ == 0 && Next(Duration(0), &info) != 0) {
    }
    return ending_;
  }

 private:
  sigset_t set_, old_;
  int ending_ = 0;
};

// The folder for state and logs; a temporary one goes away unless something went wrong.
class StateDir {
 public:
  ~StateDir() {
    std::error_code ignored;
    if (temporary_ && !keep_) std::filesystem::remove_all(path_, ignored);
  }
  absl::Status Make(const std::string& wanted) {
    if (!wanted.empty()) {
      path_ = std::filesystem::absolute(wanted).lexically_normal().string();
      return MakeDirectories(path_);
    }
    std::error_code error;
    std::string pattern =
        (std::filesystem::temp_directory_path(error) / "pipedream-local-XXXXXX").string();
    if (error || mkdtemp(pattern.data()) == nullptr) {
      return Unavailable("cannot make a temporary folder in {}; name one with --state-dir",
                         pattern);
    }
    path_ = pattern;
    temporary_ = true;
    return absl::OkStatus();
  }
  void Keep() { keep_ = true; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_ = false, keep_ = false;
};

absl::StatusOr<std::string> OwnFolder() {
  std::error_code error;
  auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Internal("cannot read /proc/self/exe: {}", error.message());
  std::string folder = self.parent_path().string();
  for (const char* name : {"pipedream-coordinator", "pipedream-worker"}) {
    if (access((folder + "/" + name).c_str(), X_OK) != 0) {
      return NotFound("{}/{} is missing: it belongs beside this command", folder, name);
    }
  }
  return folder;
}

int RegisteredWorkers(const Connection& connection) {
  grpc::ClientContext call;
  SetTimeout(&call, std::chrono::seconds(2));
  v1::ListWorkersResponse response;
  if (!connection.stub->ListWorkers(&call, {}, &response).ok()) return 0;
  return static_cast<int>(std::count_if(
      response.workers().begin(), response.workers().end(),
      [](const v1::Worker& worker) { return worker.state() != v1::Worker::STATE_LOST; }));
}

absl::Status WaitForWorkers(LocalCluster* cluster, int workers, const Clock& clock,
                            PendingSignals* signals) {
  PD_ASSIGN_OR_RETURN(Connection connection, Connect({cluster->address(), "local"}, false));
  Duration end = clock.Now() + kRegisterPatience;
  int registered = 0;
  while ((registered = RegisteredWorkers(connection)) < workers) {
    PD_RETURN_IF_ERROR(cluster->Supervise());
    if (signals->Ending() != 0) return absl::CancelledError("interrupted");
    if (clock.Now() > end) {
      return DeadlineExceeded("only {} of {} workers registered within 60 s", registered, workers);
    }
    siginfo_t info;
    signals->Next(std::chrono::milliseconds(50), &info);
  }
  return absl::OkStatus();
}

// Until Ctrl-C or SIGTERM; the command's exit code if there is one.
absl::StatusOr<int> Attend(LocalCluster* cluster, Process* command, PendingSignals* signals) {
  int requests = 0;
  while (true) {
    siginfo_t info;
    int signal = signals->Next(std::chrono::seconds(1), &info);
    if (command->running()) {
      if (auto ended = command->Poll()) return ended->code;
    }
    PD_RETURN_IF_ERROR(cluster->Supervise());
    if (signal == 0 || signal == SIGCHLD) continue;
    if (!command->running()) return 0;  // ending is what the user asked for
    // The terminal sends Ctrl-C to the command as well; anybody else only to us.
    bool from_terminal = signal == SIGINT && info.si_code == SI_KERNEL;
    if (++requests > 2)
      command->Kill(SIGKILL);
    else if (!from_terminal)
      command->Kill(signal);
  }
}

std::string HowToUse(const LocalCluster& cluster, const LocalOptions& options, int threads,
                     const std::string& folder) {
  std::string text = fmt::format(
      "coordinator at {}, {} worker{} with {} thread{} each; logs in {}/logs\n", cluster.address(),
      options.workers, options.workers == 1 ? "" : "s", threads, threads == 1 ? "" : "s", folder);
  if (!options.command.empty()) return text;
  if (cluster.address() != kDefaultServer) {
    text += fmt::format("  export PIPEDREAM_SERVER={}\n", cluster.address());
  }
  return text +
         "  pipedream submit --model model.onnx --data folder/ --loss cross_entropy --follow\n"
         "  pipedream get workers\n"
         "Ctrl-C ends it all.\n";
}

absl::StatusOr<int> RunCluster(const CommandContext& context, const LocalOptions& options,
                               const std::string& folder, PendingSignals* signals) {
  const Terminal& terminal = context.terminal;
  ClusterOptions cluster_options;
  PD_ASSIGN_OR_RETURN(cluster_options.bin_dir, OwnFolder());
  cluster_options.state_dir = folder;
  cluster_options.workers = options.workers;
  int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int threads = options.threads > 0 ? options.threads : std::max(1, cores / options.workers);
  cluster_options.threads = threads;
  cluster_options.port = options.port >= 0 ? options.port : options.command.empty() ? 7070 : 0;
  cluster_options.memory_bytes = options.memory_bytes;
  cluster_options.transport = options.transport;
  cluster_options.notice = [&](const std::string& line) { *terminal.err << line << std::endl; };
  LocalCluster cluster(std::move(cluster_options), context.clock);
  PD_RETURN_IF_ERROR(cluster.StartCoordinator([&] { return signals->Ending() != 0; }));
  PD_RETURN_IF_ERROR(cluster.StartWorkers());
  PD_RETURN_IF_ERROR(WaitForWorkers(&cluster, options.workers, *context.clock, signals));
  *(options.command.empty() ? terminal.out : terminal.err)
      << HowToUse(cluster, options, threads, folder) << std::flush;
  Process command;
  if (!options.command.empty()) {
    ProcessOptions process;
    process.argv = options.command;
    process.environment = {{"PIPEDREAM_SERVER", cluster.address()}};
    PD_ASSIGN_OR_RETURN(command, Process::Start(process));
  }
  absl::StatusOr<int> code = Attend(&cluster, &command, signals);
  if (command.running()) command.Kill(SIGTERM);
  cluster.Stop(kStopPatience);
  return code;
}

}  // namespace

absl::StatusOr<int> Local(const CommandContext& context, const LocalOptions& options) {
  PendingSignals signals;  // before any other thread exists, so that none receives them
  StateDir folder;
  PD_RETURN_IF_ERROR(folder.Make(options.state_dir));
  absl::StatusOr<int> code = RunCluster(context, options, folder.path(), &signals);
  if (absl::IsCancelled(code.status()) && signals.Ending() == SIGTERM) return kExitTerminated;
  if (!code.ok() && !absl::IsCancelled(code.status())) folder.Keep();  // its logs are evidence
  return code;
}

}  // namespace pipedream
