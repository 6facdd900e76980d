#include "client/local/cluster.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>

#include "common/base/file.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

constexpr Duration kStartPatience = std::chrono::seconds(30);
// A worker that lives shorter than this died at the start.
constexpr Duration kQuickDeath = std::chrono::seconds(5);
constexpr int kMaxQuickDeaths = 5;
constexpr Duration kPollInterval = std::chrono::milliseconds(20);

// A child ending, a signal, or this much time.
void Doze(Duration time) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  timespec wait{0, static_cast<long>(time.count())};
  sigtimedwait(&set, nullptr, &wait);
}

// The port file holds the port, alone or after a host.
int ParsePortFile(const std::string& text) {
  size_t colon = text.rfind(':');
  std::string_view digits(text);
  if (colon != std::string::npos) digits.remove_prefix(colon + 1);
  int port = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  bool complete = end == digits.data() + digits.size() || *end == '\n';
  return error == std::errc() && complete ? port : 0;
}

}  // namespace

LocalCluster::LocalCluster(ClusterOptions options, const Clock* clock)
    : options_(std::move(options)), clock_(clock) {}

LocalCluster::~LocalCluster() { Stop(std::chrono::seconds(5)); }

std::string LocalCluster::LogPath(const std::string& name) const {
  return options_.state_dir + "/logs/" + name + ".log";
}

std::string LocalCluster::LogTail(const std::string& name) const {
  std::ifstream file(LogPath(name));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > 10) lines.erase(lines.begin());
  }
  std::string tail = fmt::format("; the end of {}:", LogPath(name));
  for (const std::string& line : lines) tail += "\n  " + line;
  return tail;
}

absl::Status LocalCluster::StartCoordinator(const std::function<bool()>& interrupted) {
  PD_RETURN_IF_ERROR(MakeDirectories(options_.state_dir + "/logs"));
  PD_RETURN_IF_ERROR(MakeDirectories(options_.state_dir + "/coordinator"));
  std::string port_file = options_.state_dir + "/coordinator.port";
  unlink(port_file.c_str());
  ProcessOptions process;
  process.argv = {options_.bin_dir + "/pipedream-coordinator",
                  "--listen",
                  fmt::format("127.0.0.1:{}", options_.port),
                  "--state-dir",
                  options_.state_dir + "/coordinator",
                  "--port-file",
                  port_file};
  process.log_path = LogPath("coordinator");
  process.own_group = true;
  PD_ASSIGN_OR_RETURN(coordinator_, Process::Start(process));
  Duration end = clock_->Now() + kStartPatience;
  while (clock_->Now() < end) {
    if (interrupted()) return absl::CancelledError("interrupted");
    if (auto status = coordinator_.Poll()) {
      return MakeStatus(absl::StatusCode::kInternal, "the coordinator {}{}", status->ToString(),
                        LogTail("coordinator"));
    }
    int port = ParsePortFile(ReadFile(port_file, 1000).value_or(""));
    if (port > 0) {
      address_ = fmt::format("127.0.0.1:{}", port);
      return absl::OkStatus();
    }
    Doze(kPollInterval);
  }
  return DeadlineExceeded("the coordinator did not start within 30 s{}", LogTail("coordinator"));
}

absl::Status LocalCluster::StartWorkers() {
  workers_.resize(options_.workers);
  for (int i = 0; i < options_.workers; ++i) {
    workers_[i].id = fmt::format("worker-{}", i + 1);
    PD_RETURN_IF_ERROR(StartWorker(&workers_[i]));
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::StartWorker(Worker* worker) {
  std::string folder = options_.state_dir + "/" + worker->id;
  PD_RETURN_IF_ERROR(MakeDirectories(folder));
  ProcessOptions process;
  process.argv = {options_.bin_dir + "/pipedream-worker",
                  "--coordinator",
                  address_,
                  "--listen",
                  "127.0.0.1:0",
                  "--work-dir",
                  folder,
                  "--threads",
                  fmt::format("{}", options_.threads),
                  "--id",
                  worker->id};
  if (options_.memory_bytes > 0) {
    process.argv.insert(process.argv.end(), {"--memory", fmt::format("{}", options_.memory_bytes)});
  }
  if (!options_.transport.empty()) {
    process.argv.insert(process.argv.end(), {"--transport", options_.transport});
  }
  process.log_path = LogPath(worker->id);
  process.own_group = true;
  PD_ASSIGN_OR_RETURN(worker->process, Process::Start(process));
  worker->started = clock_->Now();
  return absl::OkStatus();
}

absl::Status LocalCluster::Supervise() {
  if (auto status = coordinator_.Poll()) {
    return MakeStatus(absl::StatusCode::kInternal, "the coordinator {}{}", status->ToString(),
                      LogTail("coordinator"));
  }
  for (Worker& worker : workers_) {
    auto status = worker.process.Poll();
    if (!status) continue;
    bool quick = clock_->Now() - worker.started < kQuickDeath;
    worker.quick_deaths = quick ? worker.quick_deaths + 1 : 0;
    if (worker.quick_deaths >= kMaxQuickDeaths) {
      return MakeStatus(absl::StatusCode::kInternal, "{} {}, {} times in a row at its start{}",
                        worker.id, status->ToString(), kMaxQuickDeaths, LogTail(worker.id));
    }
    options_.notice(fmt::format("{} {}; starting it anew (log: {})", worker.id, status->ToString(),
                                LogPath(worker.id)));
    PD_RETURN_IF_ERROR(StartWorker(&worker));
  }
  return absl::OkStatus();
}

void LocalCluster::Stop(Duration patience) {
  auto all = [&](auto&& action) {
    action(coordinator_);
    for (Worker& worker : workers_) action(worker.process);
  };
  auto left = [&] {
    int running = 0;
    all([&](Process& process) {
      process.Poll();
      running += process.running();
    });
    return running;
  };
  all([](Process& process) { process.Kill(SIGTERM); });
  // A stopped process (SIGSTOP) would not see it.
  all([](Process& process) { process.Kill(SIGCONT); });
  Duration end = clock_->Now() + patience;
  while (left() > 0 && clock_->Now() < end) Doze(kPollInterval);
  all([](Process& process) { process.Kill(SIGKILL); });
  while (left() > 0) Doze(kPollInterval);
}

}  // namespace pipedream
