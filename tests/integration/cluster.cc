#include "tests/integration/cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {
namespace {

constexpr Duration kStartPatience = std::chrono::seconds(30);
constexpr Duration kStopPatience = std::chrono::seconds(10);
constexpr Duration kLook = std::chrono::milliseconds(10);
constexpr int64_t kMaxOutput = 1 << 24;

std::string Contents(const std::string& path) { return ReadFile(path, kMaxOutput).value_or(""); }

// Processes whose command line names `text`.
std::vector<std::string> ProcessesNaming(const std::string& text) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    std::stringstream line;
    line << file.rdbuf();
    std::string words = line.str();
    std::ranges::replace(words, '\0', ' ');
    if (words.find(text) != std::string::npos)
      found.push_back(fmt::format("{}: {}", entry.path().filename().string(), words));
  }
  return found;
}

}  // namespace

TestFolder::TestFolder() {
  path_ = (std::filesystem::temp_directory_path() / "pipedream-test-XXXXXX").string();
  PIPEDREAM_CHECK(mkdtemp(path_.data()) != nullptr);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

bool WaitForEnd(Process* process, Duration patience, ExitStatus* status) {
  UniqueFd end(static_cast<int>(syscall(SYS_pidfd_open, process->pid(), 0)));
  if (end.valid()) {
    pollfd wait{end.get(), POLLIN, 0};
    int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
    while (poll(&wait, 1, static_cast<int>(ms)) < 0 && errno == EINTR) {
    }
  }
  auto ended = process->Poll();
  if (!ended) return false;
  if (status != nullptr) *status = *ended;
  return true;
}

CommandResult RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                         const CommandOptions& options) {
  TestFolder folder;
  ProcessOptions process_options;
  // A shell, since a Process has one log for both streams; it becomes the program.
  process_options.argv = {
      "/bin/sh",
      "-c",
      "cd \"$1\" && shift && exec \"$@\" >\"$TEST_OUT\" 2>\"$TEST_ERR\" </dev/null",
      "sh",
      options.folder.empty() ? "." : options.folder,
      program.starts_with("/") ? program : std::string(PIPEDREAM_BIN_DIR) + "/" + program};
  process_options.argv.insert(process_options.argv.end(), arguments.begin(), arguments.end());
  process_options.environment = {{"TEST_OUT", folder.path() + "/out"},
                                 {"TEST_ERR", folder.path() + "/err"},
                                 {"PIPEDREAM_CONFIG", folder.path() + "/no-config.yaml"},
                                 {"NO_COLOR", "1"}};
  for (const auto& variable : options.environment) process_options.environment.push_back(variable);
  process_options.own_group = true;
  CommandResult result;
  absl::StatusOr<Process> process = Process::Start(process_options);
  if (!process.ok()) {
    result.err = process.status().ToString();
    return result;
  }
  ExitStatus status;
  result.code = WaitForEnd(&*process, options.patience, &status) ? status.code : 124;
  if (process->running()) process->Kill(SIGKILL);
  result.out = Contents(folder.path() + "/out");
  result.err = Contents(folder.path() + "/err");
  return result;
}

TestCluster::~TestCluster() {
  Stop();
  std::vector<std::string> left = ProcessesNaming(folder());
  EXPECT_TRUE(left.empty()) << "left running: " << fmt::format("{}", fmt::join(left, "; "));
  if (!testing::Test::HasFailure()) return;
  std::fprintf(stderr, "coordinator:\n%s", LogTail("coordinator").c_str());
  for (size_t i = 1; i <= workers_.size(); ++i) {
    std::string name = fmt::format("worker-{}", i);
    std::fprintf(stderr, "%s:\n%s", name.c_str(), LogTail(name).c_str());
  }
}

absl::Status TestCluster::Start(const TestClusterOptions& options) {
  PD_RETURN_IF_ERROR(StartCoordinator(options.coordinator_flags));
  for (int i = 0; i < options.workers; ++i) PD_RETURN_IF_ERROR(StartWorker(options.worker_flags));
  return WaitForWorkers();
}

absl::Status TestCluster::AddWorker(const std::vector<std::string>& flags) {
  PD_RETURN_IF_ERROR(StartWorker(flags));
  return WaitForWorkers();
}

absl::Status TestCluster::StartCoordinator(const std::vector<std::string>& flags) {
  const std::string port_file = folder() + "/port";
  ProcessOptions options;
  options.argv = {std::string(PIPEDREAM_BIN_DIR) + "/pipedream-coordinator",
                  "--listen",
                  "127.0.0.1:0",
                  "--state-dir",
                  folder() + "/coordinator",
                  "--port-file",
                  port_file};
  options.argv.insert(options.argv.end(), flags.begin(), flags.end());
  options.log_path = folder() + "/coordinator.log";
  options.own_group = true;
  PD_ASSIGN_OR_RETURN(coordinator_, Process::Start(options));
  const Duration end = SystemClock()->Now() + kStartPatience;
  std::string port;
  while (port.empty() || port.back() != '\n') {
    ExitStatus status;
    if (WaitForEnd(&coordinator_, kLook, &status))
      return Internal("the coordinator {}:\n{}", status.ToString(), LogTail("coordinator"));
    if (SystemClock()->Now() > end)
      return DeadlineExceeded("no port from the coordinator:\n{}", LogTail("coordinator"));
    port = Contents(port_file);
  }
  port.pop_back();
  address_ = "127.0.0.1:" + port.substr(port.rfind(':') + 1);
  PD_ASSIGN_OR_RETURN(connection_, Connect({address_, "the test"}, false));
  return absl::OkStatus();
}

absl::Status TestCluster::StartWorker(const std::vector<std::string>& flags) {
  const std::string id = fmt::format("worker-{}", workers_.size() + 1);
  ProcessOptions options;
  options.argv = {std::string(PIPEDREAM_BIN_DIR) + "/pipedream-worker",
                  "--coordinator",
                  address_,
                  "--work-dir",
                  folder() + "/" + id,
                  "--id",
                  id,
                  // Equal workers: plans do not depend on what else the machine does.
                  "--speed",
                  "1e9"};
  options.argv.insert(options.argv.end(), flags.begin(), flags.end());
  options.log_path = folder() + "/" + id + ".log";
  options.own_group = true;
  PD_ASSIGN_OR_RETURN(Process worker, Process::Start(options));
  workers_.push_back(std::move(worker));
  return absl::OkStatus();
}

int TestCluster::RegisteredWorkers() const {
  grpc::ClientContext call;
  SetTimeout(&call, std::chrono::seconds(5));
  v1::ListWorkersResponse response;
  if (!connection_.stub->ListWorkers(&call, {}, &response).ok()) return 0;
  return response.workers_size();
}

absl::Status TestCluster::WaitForWorkers() {
  const Duration end = SystemClock()->Now() + kStartPatience;
  while (RegisteredWorkers() < static_cast<int>(workers_.size())) {
    ExitStatus status;
    if (WaitForEnd(&workers_.back(), kLook, &status)) {
      return Internal("a worker {}:\n{}", status.ToString(),
                      LogTail(fmt::format("worker-{}", workers_.size())));
    }
    if (SystemClock()->Now() > end) return DeadlineExceeded("the workers did not register");
  }
  return absl::OkStatus();
}

CommandResult TestCluster::Run(const std::vector<std::string>& arguments,
                               CommandOptions options) const {
  options.environment.emplace_back("PIPEDREAM_SERVER", address_);
  return RunProgram("pipedream", arguments, options);
}

absl::StatusOr<v1::Job> TestCluster::Train(const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {"submit", "-o", "name"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  CommandResult submitted = Run(words);
  if (submitted.code != 0)
    return Internal("submit ended with {}: {}", submitted.code, submitted.err);
  std::string id = submitted.out.substr(0, submitted.out.find('\n'));
  CommandResult followed = Run({"logs", "-f", "--progress", "none", id});
  if (followed.code != 0)
    return Internal("job {} ended with {}: {}{}", id, followed.code, followed.out, followed.err);
  return GetJob(id);
}

absl::StatusOr<v1::Job> TestCluster::GetJob(const std::string& id) const {
  grpc::ClientContext call;
  SetTimeout(&call, std::chrono::seconds(10));
  v1::GetJobRequest request;
  request.set_job_id(id);
  v1::Job job;
  PD_RETURN_IF_ERROR(connection_.Result(connection_.stub->GetJob(&call, request, &job)));
  return job;
}

std::string TestCluster::LogTail(const std::string& name) const {
  std::string text = Contents(folder() + "/" + name + ".log");
  size_t begin = text.size();
  for (int lines = 0; lines <= 15 && begin != std::string::npos && begin > 0; ++lines)
    begin = text.rfind('\n', begin - 1);
  return begin == std::string::npos ? text : text.substr(begin + 1);
}

void TestCluster::Stop() {
  const Duration end = SystemClock()->Now() + kStopPatience;
  auto request = [](Process& process) {
    // A test that ends a process takes notice of it.
    if (auto status = process.Poll())
      ADD_FAILURE() << "a daemon ended on its own: it " << status->ToString();
    process.Kill(SIGTERM);
  };
  for (Process& worker : workers_) request(worker);
  request(coordinator_);
  auto stop = [&](Process& process) {
    if (!process.running()) return;
    process.Kill(SIGCONT);  // a stopped process would not see the other
    Duration left = std::max(Duration(0), end - SystemClock()->Now());
    bool ended = WaitForEnd(&process, left, nullptr);
    EXPECT_TRUE(ended) << "SIGTERM did not end process " << process.pid();
    if (ended) return;
    process.Kill(SIGKILL);
    WaitForEnd(&process, std::chrono::seconds(10), nullptr);
  };
  for (Process& worker : workers_) stop(worker);
  stop(coordinator_);
}

}  // namespace pipedream
