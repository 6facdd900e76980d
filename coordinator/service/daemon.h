#pragma once

#include <string>

#include "common/base/clock.h"

namespace pipedream {

struct DaemonOptions {
  std::string listen = "127.0.0.1:7070";
  std::string port_file;  // gets the bound port; empty: none
  std::string state_dir;
  std::string data_root;  // of "shared:" paths; empty: none
  Duration lease = std::chrono::seconds(5);
  bool insecure = false;
};

// Runs the coordinator until SIGTERM or SIGINT; those must be blocked in all threads before. Prints
// "listening on HOST:PORT" on stdout once it serves. Returns the process's exit code.
int RunCoordinator(const DaemonOptions& options);

}  // namespace pipedream
