// Jobs over real processes that something happens to. All waits have deadlines.
#pragma once

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "client/connection.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/grpc_channel.h"
#include "tests/integration/cluster.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"

namespace pipedream {

// A worker that dies or hangs fails its job within this.
inline constexpr Duration kFailureFloor = std::chrono::seconds(10);
inline constexpr Duration kSoon = std::chrono::seconds(5);
inline constexpr Duration kPatience = std::chrono::seconds(60);

// Looks until `done` or the deadline; the seconds it took, negative if it did not happen.
inline double WaitUntil(Duration limit, const std::function<bool()>& done) {
  const Duration begin = SystemClock()->Now();
  while (!done()) {
    if (SystemClock()->Now() - begin > limit) return -1;
    usleep(10'000);
  }
  return ToSeconds(SystemClock()->Now() - begin);
}

// Pids of processes whose command line has `text`.
inline std::vector<pid_t> ProcessesWith(const std::string& text) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.empty() || !std::ranges::all_of(name, ::isdigit)) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    std::stringstream words;
    words << file.rdbuf();
    if (words.str().find(text) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

inline std::vector<std::string> SharedMemoryFiles() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error))
    if (entry.path().filename().string().find("pipedream") != std::string::npos)
      names.push_back(entry.path());
  return names;
}

class FailureTest : public testing::Test {
 protected:
  FailureTest() : data_({.batch_norm = true, .dropout = true, .train_samples = 4096}) {}
  ~FailureTest() override { EXPECT_THAT(SharedMemoryFiles(), testing::IsEmpty()); }

  void StartCluster(int workers, std::vector<std::string> worker_flags = {}) {
    ASSERT_OK(cluster_.Start({.workers = workers, .worker_flags = std::move(worker_flags)}));
    ASSERT_OK_AND_ASSIGN(connection_, Connect({cluster_.address(), "the test"}, false));
  }

  // A straight pipeline on `stages` workers.
  std::vector<std::string> JobWords(int stages, int epochs) const {
    return {"--model",        data_.model_path(),
            "--data",         "x=" + data_.folder() + "/train-x.npy",
            "--labels",       "y=" + data_.folder() + "/train-y.npy",
            "--loss",         "cross_entropy",
            "--optimizer",    "sgd",
            "--batch-size",   "128",
            "--epochs",       std::to_string(epochs),
            "--stages",       std::to_string(stages),
            "--workers",      std::to_string(stages),
            "--max-replicas", "1"};
  }

  std::string Submit(int stages, int epochs, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"submit", "-o", "name"};
    words.insert(words.end(), more.begin(), more.end());
    const std::vector<std::string> job = JobWords(stages, epochs);
    words.insert(words.end(), job.begin(), job.end());
    CommandResult result = cluster_.Run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    std::string id = result.out.substr(0, result.out.find('\n'));
    if (id.starts_with("job/")) id = id.substr(4);
    return id;
  }
  // Longer than any test.
  std::string SubmitLong(int stages, const std::vector<std::string>& more = {}) {
    return Submit(stages, 3000, more);
  }

  v1::Job Get(const std::string& id) const { return cluster_.GetJob(id).value_or(v1::Job()); }

  bool WaitForState(const std::string& id, v1::JobState state, Duration limit = kPatience) {
    v1::Job job;
    const double seconds = WaitUntil(limit, [&] {
      job = Get(id);
      return job.state() == state || job.state() >= v1::JOB_STATE_SUCCEEDED;
    });
    if (seconds >= 0 && job.state() == state) return true;
    ADD_FAILURE() << "job " << id << " is " << v1::JobState_Name(job.state()) << " ("
                  << job.reason() << "), not " << v1::JobState_Name(state);
    return false;
  }

  // Trains, really.
  bool WaitForProgress(const std::string& id) {
    if (!WaitForState(id, v1::JOB_STATE_RUNNING)) return false;
    const int64_t from = Get(id).progress().minibatch();
    return WaitUntil(kPatience, [&] { return Get(id).progress().minibatch() > from + 10; }) >= 0;
  }

  // Expects it and prints how long it took.
  v1::Job ExpectFails(const std::string& id, const std::string& what) {
    const double seconds =
        WaitUntil(kFailureFloor, [&] { return Get(id).state() == v1::JOB_STATE_FAILED; });
    v1::Job job = Get(id);
    EXPECT_GE(seconds, 0) << what << ": the job is still " << v1::JobState_Name(job.state());
    std::printf("%s to FAILED: %.2f s (%s)\n", what.c_str(), seconds, job.reason().c_str());
    return job;
  }

  v1::Worker WorkerNamed(const std::string& id) const {
    grpc::ClientContext call;
    SetTimeout(&call, kSoon);
    v1::ListWorkersResponse response;
    (void)connection_.stub->ListWorkers(&call, {}, &response);
    for (const v1::Worker& worker : response.workers())
      if (worker.id() == id) return worker;
    return {};
  }

  static std::string WorkerId(int index) { return "worker-" + std::to_string(index + 1); }

  void ExpectIdle(const std::vector<int>& workers) {
    for (int index : workers)
      EXPECT_GE(
          WaitUntil(kSoon,
                    [&] { return WorkerNamed(WorkerId(index)).state() == v1::Worker::STATE_IDLE; }),
          0)
          << WorkerId(index) << " is not idle again";
  }

  void ExpectTrains(int stages) {
    const std::string id = Submit(stages, 1);
    WaitForState(id, v1::JOB_STATE_SUCCEEDED);
  }

  // And reaps it: the cluster objects to daemons that end by themselves.
  void KillWorker(int worker) {
    cluster_.worker(worker).Kill(SIGKILL);
    ASSERT_TRUE(WaitForEnd(&cluster_.worker(worker), kSoon, nullptr));
  }

  // Starts the worker anew, as a supervisor would.
  absl::Status Restart(int worker) {
    WaitForEnd(&cluster_.worker(worker), kSoon, nullptr);
    ProcessOptions options;
    options.argv = {std::string(PIPEDREAM_BIN_DIR) + "/pipedream-worker",
                    "--coordinator",
                    cluster_.address(),
                    "--work-dir",
                    cluster_.folder() + "/" + WorkerId(worker),
                    "--id",
                    WorkerId(worker)};
    options.log_path = LogPath(WorkerId(worker));
    options.own_group = true;
    PD_ASSIGN_OR_RETURN(cluster_.worker(worker), Process::Start(options));
    return absl::OkStatus();
  }

  // At the address and state folder of the one that ended.
  absl::Status RestartCoordinator() {
    WaitForEnd(&cluster_.coordinator(), kSoon, nullptr);
    ProcessOptions options;
    options.argv = {std::string(PIPEDREAM_BIN_DIR) + "/pipedream-coordinator", "--listen",
                    cluster_.address(), "--state-dir", cluster_.folder() + "/coordinator"};
    options.log_path = LogPath("coordinator");
    options.own_group = true;
    PD_ASSIGN_OR_RETURN(cluster_.coordinator(), Process::Start(options));
    return absl::OkStatus();
  }

  std::string LogPath(const std::string& name) const {
    return cluster_.folder() + "/" + name + ".log";
  }
  std::string Log(const std::string& name) const {
    return ReadFile(LogPath(name), 1 << 24).value_or("");
  }

  SmallJob data_;
  TestCluster cluster_;
  Connection connection_;
};

}  // namespace pipedream
