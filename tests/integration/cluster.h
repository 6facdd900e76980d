// A coordinator and workers as real processes on loopback, and the `pipedream` command against
// them.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "client/local/process.h"
#include "common/base/clock.h"
#include "pipedream/v1/job.pb.h"

namespace pipedream {

// Of a command line.
using Words = std::vector<std::string>;

// A temporary folder, gone at the end with all that is in it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct CommandResult {
  int code = -1;  // 128 + the signal that ended it; 124: it was ended for taking too long
  std::string out;
  std::string err;
};

struct CommandOptions {
  std::string folder;  // to run in; empty: this process's
  std::vector<std::pair<std::string, std::string>> environment;
  Duration patience = std::chrono::seconds(60);
};

// Runs a program of PIPEDREAM_BIN_DIR, or one named by its full path, to its end; with neither
// colours nor anyone's configuration.
CommandResult RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                         const CommandOptions& options = {});

// Waits until the process has ended. False: it still runs after `patience`.
bool WaitForEnd(Process* process, Duration patience, ExitStatus* status);

struct TestClusterOptions {
  int workers = 0;
  std::vector<std::string> worker_flags = {};  // of every worker
  std::vector<std::string> coordinator_flags = {};
};

// A coordinator that does not take workers on a busy machine for lost.
inline TestClusterOptions Patient(int workers, std::vector<std::string> worker_flags = {}) {
  return {workers, std::move(worker_flags), {"--lease", "20s"}};
}

// Use on one thread (see Process). The destructor ends every process that was started, and fails
// the test if one is left, or had ended before without the test's noticing (Process::Poll). After a
// failed test it prints the ends of the logs.
class TestCluster {
 public:
  TestCluster() = default;
  ~TestCluster();
  TestCluster(const TestCluster&) = delete;
  TestCluster& operator=(const TestCluster&) = delete;

  // Returns once the coordinator answers and all workers are registered.
  absl::Status Start(const TestClusterOptions& options);
  // One more worker; its id is "worker-1", "worker-2", ... Returns once it is registered.
  absl::Status AddWorker(const std::vector<std::string>& flags);

  // The `pipedream` command with this coordinator.
  CommandResult Run(const std::vector<std::string>& arguments, CommandOptions options = {}) const;
  // `pipedream submit ARGUMENTS --wait`, which must succeed, and then the job.
  absl::StatusOr<v1::Job> Train(const std::vector<std::string>& arguments) const;
  absl::StatusOr<v1::Job> GetJob(const std::string& id) const;

  // "127.0.0.1:PORT".
  const std::string& address() const { return address_; }
  const std::string& folder() const { return folder_.path(); }
  Process& coordinator() { return coordinator_; }
  Process& worker(int index) { return workers_[index]; }
  std::string LogTail(const std::string& name) const;

 private:
  absl::Status StartCoordinator(const std::vector<std::string>& flags);
  absl::Status StartWorker(const std::vector<std::string>& flags);
  absl::Status WaitForWorkers();
  int RegisteredWorkers() const;
  void Stop();

  TestFolder folder_;
  std::string address_;
  Connection connection_;
  Process coordinator_;
  std::vector<Process> workers_;
};

}  // namespace pipedream
