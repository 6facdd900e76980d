#pragma once

#include <cstdint>
#include <string>

namespace pipedream {

struct WorkerOptions {
  std::string coordinator;             // "host:port"
  std::string listen = "127.0.0.1:0";  // control; the data plane binds the same host
  // Under which host others reach this worker; empty: listen's. Needed if that is a wildcard.
  std::string advertise;
  std::string work_dir;      // cached files; made if it is not there
  std::string id;            // empty: the coordinator names the worker
  int threads = 1;           // of compute
  int64_t memory_bytes = 0;  // usable by a stage; 0: the machine's
  bool offer_shm = true;
  double pacing_bytes_per_s = 0;  // tcp send limit, for tests; 0: none
  // Every instruction that computes takes so many times as long (a sleep follows it), and so do the
  // measurements of speed and profile: to see what a slow worker does to a pipeline.
  double slowdown = 1;
  // Floating-point operations per second, to tell workers of one kind apart; 0: measured before the
  // worker registers, one worker of a host after the other.
  double speed = 0;
  bool insecure = false;  // allow addresses beyond loopback without TLS
  // A worker that cannot reach its coordinator for this long stops its stage, so that nothing
  // trains for ever after the coordinator is gone.
  double orphan_timeout_s = 20;
};

}  // namespace pipedream
