// The coordinator daemon: flags, logging, signals.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <string>

#include "common/base/log.h"
#include "common/base/units.h"
#include "common/base/version.h"
#include "coordinator/service/daemon.h"

int main(int argc, char** argv) {
  pipedream::DaemonOptions options;
  std::string lease = "5s";
  std::string log_level = "info";
  std::string log_format = "text";

  CLI::App app{"Plans and supervises training jobs; workers and clients connect to it."};
  app.name("pipedream-coordinator");
  app.set_version_flag("--version", std::string(pipedream::kVersion));
  app.add_option("--listen", options.listen, "HOST:PORT to serve on; port 0: any free one")
      ->capture_default_str();
  app.add_option("--port-file", options.port_file, "File that gets the port once it serves");
  app.add_option("--state-dir", options.state_dir, "Folder for jobs and uploaded files")
      ->required();
  app.add_option("--data-root", options.data_root,
                 "Folder of shared: paths, the same on all machines");
  app.add_option("--lease", lease, "A worker that is silent for so long is lost")
      ->capture_default_str();
  app.add_flag("--insecure", options.insecure,
               "Serve beyond loopback without TLS: anyone on the network may run jobs");
  app.add_option("--log-level", log_level, "debug, info, warning, error or off")
      ->capture_default_str();
  app.add_option("--log-format", log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  pipedream::LogOptions log{.program = "coordinator", .json = log_format == "json"};
  if (!pipedream::ParseLogLevel(log_level, &log.level)) {
    std::fprintf(stderr, "--log-level '%s': expected debug, info, warning, error or off\n",
                 log_level.c_str());
    return 2;
  }
  auto seconds = pipedream::ParseSeconds(lease);
  if (!seconds.ok() || *seconds < 0.1 || *seconds > 3600) {
    std::fprintf(stderr, "--lease '%s': expected 100ms to 1h\n", lease.c_str());
    return 2;
  }
  options.lease = pipedream::FromSeconds(*seconds);
  pipedream::InitLog(log);

  // Before any thread exists, so that sigwait is the only one to get them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return pipedream::RunCoordinator(options);
}
