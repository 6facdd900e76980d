// Who is there: ids, incarnations and leases. Knows nothing of jobs.
//
// A registration starts a lease that heartbeats extend. A worker that registers anew under its id
// takes the id over: its earlier incarnation is lost at once. Lost workers stay listed for a while,
// so that people see what happened.
//
// Threads: not thread-safe; the coordinator's loop owns it. Time comes with every call.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/cluster/worker_info.h"

namespace pipedream {

struct RegistryOptions {
  Duration lease = std::chrono::seconds(3);
  Duration remember_lost = std::chrono::minutes(10);
  size_t max_workers = 1024;  // live ones
};

struct RegisteredWorker {
  WorkerInfo info{};
  int64_t incarnation = 0;
  bool lost = false;
  int64_t registered_us = 0;
  int64_t last_heartbeat_us = 0;
  Duration last_heartbeat{};  // or registration
};

class WorkerRegistry {
 public:
  explicit WorkerRegistry(const RegistryOptions& options) : options_(options) {}

  struct Registration {
    std::string id;
    int64_t incarnation = 0;
    bool replaced_live = false;  // an earlier incarnation with a running lease is lost by this
  };
  // An empty id gets "worker-N" with the lowest N above all ids of that form seen or reserved.
  // kInvalidArgument names the field; kResourceExhausted beyond max_workers.
  absl::StatusOr<Registration> Register(WorkerInfo info, Duration now, int64_t unix_us);
  // Extends the lease. kNotFound (reason LEASE_LOST) when that incarnation has none.
  absl::Status Heartbeat(const std::string& id, int64_t incarnation, Duration now, int64_t unix_us);
  // Ids whose lease ran out by `now`, each reported once, in order.
  std::vector<std::string> Expire(Duration now);
  // No new worker is given an id up to this one: ids used before a restart.
  void Reserve(const std::string& id);

  // Null if unknown.
  const RegisteredWorker* Find(const std::string& id) const;
  // By id.
  std::vector<RegisteredWorker> List() const;

 private:
  const RegistryOptions options_;
  std::map<std::string, RegisteredWorker> workers_;
  int64_t next_incarnation_ = 1;
  int64_t highest_number_ = 0;
};

}  // namespace pipedream
