// A coordinator and workers as child processes on this machine.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <vector>

#include "client/local/process.h"
#include "common/base/clock.h"

namespace pipedream {

struct ClusterOptions {
  std::string bin_dir;    // holds pipedream-coordinator and pipedream-worker
  std::string state_dir;  // exists; logs go to state_dir/logs
  int workers = 1;
  int threads = 1;           // per worker
  int port = 0;              // of the coordinator; 0: any free one
  int64_t memory_bytes = 0;  // per worker; 0: its default
  std::string transport;
  std::function<void(const std::string&)> notice;  // one line for people
};

// Not thread-safe; lives on one thread (see Process). SIGCHLD, SIGINT and SIGTERM must be blocked.
class LocalCluster {
 public:
  LocalCluster(ClusterOptions options, const Clock* clock);
  // Stops everything, as Stop does.
  ~LocalCluster();

  // Until the coordinator answers; `interrupted` is asked while waiting and ends it with
  // kCancelled.
  absl::Status StartCoordinator(const std::function<bool()>& interrupted);
  absl::Status StartWorkers();
  // Takes notice of ended children: starts workers anew, says so. An error ends the cluster: the
  // coordinator is gone, or a worker dies over and over; it quotes the log.
  absl::Status Supervise();
  // SIGTERM to all, SIGKILL to who is left after `patience`. Nothing runs afterwards.
  void Stop(Duration patience);

  const std::string& address() const { return address_; }

 private:
  struct Worker {
    std::string id;
    Process process;
    Duration started{0};
    int quick_deaths = 0;
  };
  absl::Status StartWorker(Worker* worker);
  std::string LogPath(const std::string& name) const;
  // "; the end of LOG:\n..." for a message.
  std::string LogTail(const std::string& name) const;

  const ClusterOptions options_;
  const Clock* clock_;
  std::string address_;
  Process coordinator_;
  std::vector<Worker> workers_;
};

}  // namespace pipedream
