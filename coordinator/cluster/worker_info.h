// What a worker says about itself when it registers. Values.
#pragma once

#include <cstdint>
#include <string>

namespace pipedream {

// Where the worker's data plane listens.
struct WorkerAddress {
  std::string host{};
  int port = 0;
  std::string host_id{};     // equal for workers that can share memory
  std::string unix_name{};   // empty: no shared memory
  std::string process_id{};  // equal only within one process
  bool operator==(const WorkerAddress&) const = default;
};

struct WorkerInfo {
  std::string id{};
  std::string device_kind{};  // equal kinds share a profile
  int64_t memory_bytes = 0;
  std::string version{};
  std::string control_address{};  // "127.0.0.1:34567", its WorkerService
  WorkerAddress data_address{};
  // Floating-point operations per second of a small benchmark, comparable within a device kind; 0:
  // not known.
  double speed = 0;
  bool operator==(const WorkerInfo&) const = default;
};

}  // namespace pipedream
