// The worker daemon: `pipedream-worker --coordinator HOST:PORT`.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "common/base/log.h"
#include "common/base/units.h"
#include "common/base/version.h"
#include "worker/service/worker.h"

namespace pipedream {
namespace {

struct Flags {
  WorkerOptions worker;
  std::string memory = "0";
  std::string transport = "auto";
  std::string log_level = "info";
  std::string log_format = "text";
};

void AddFlags(CLI::App* app, Flags* flags) {
  app->add_option("--coordinator", flags->worker.coordinator, "HOST:PORT of the coordinator")
      ->required();
  app->add_option("--listen", flags->worker.listen,
                  "address to serve on; port 0 takes any free one")
      ->capture_default_str();
  app->add_option("--advertise", flags->worker.advertise,
                  "host under which others reach this worker (default: that of --listen)");
  app->add_option("--orphan-timeout", flags->worker.orphan_timeout_s,
                  "seconds without the coordinator after which the stage is stopped")
      ->check(CLI::Range(0.5, 86400.0))
      ->capture_default_str();
  app->add_option("--work-dir", flags->worker.work_dir,
                  "cached files (default: a temporary folder)");
  app->add_option("--id", flags->worker.id,
                  "name of this worker (default: the coordinator chooses)");
  app->add_option("--threads", flags->worker.threads, "compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_option("--memory", flags->memory, "memory a stage may use, such as 4G (default: all)");
  app->add_option("--transport", flags->transport, "auto, or tcp: do not offer shared memory")
      ->check(CLI::IsMember({"auto", "shm", "tcp"}));
  app->add_option("--pacing", flags->worker.pacing_bytes_per_s,
                  "limit of tcp sends in bytes per second, for tests");
  app->add_option("--slowdown", flags->worker.slowdown,
                  "every compute instruction takes so many times as long, for tests")
      ->check(CLI::Range(1.0, 1000.0))
      ->capture_default_str();
  app->add_option("--speed", flags->worker.speed,
                  "floating-point operations per second (default: measured at the start)")
      ->check(CLI::Range(1.0, 1e18));
  app->add_flag("--insecure", flags->worker.insecure,
                "allow addresses beyond this machine without TLS");
  app->add_option("--log-level", flags->log_level, "debug, info, warning, error, off");
  app->add_option("--log-format", flags->log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  app->set_version_flag("--version", std::string(kVersion));
}

int Run(Flags flags) {
  LogOptions log;
  log.program = "worker";
  log.json = flags.log_format == "json";
  if (!ParseLogLevel(flags.log_level, &log.level)) {
    std::fprintf(stderr, "--log-level: '%s' is none of debug, info, warning, error, off\n",
                 flags.log_level.c_str());
    return 2;
  }
  InitLog(log);
  absl::StatusOr<int64_t> memory = ParseBytes(flags.memory);
  if (!memory.ok()) {
    std::fprintf(stderr, "--memory: %s\n", std::string(memory.status().message()).c_str());
    return 2;
  }
  flags.worker.memory_bytes = *memory;
  flags.worker.offer_shm = flags.transport != "tcp";
  std::string temporary;
  if (flags.worker.work_dir.empty()) {
    temporary = (std::filesystem::temp_directory_path() / "pipedream-worker-XXXXXX").string();
    if (mkdtemp(temporary.data()) == nullptr) {
      std::fprintf(stderr, "cannot make a temporary folder; give --work-dir\n");
      return 1;
    }
    flags.worker.work_dir = temporary;
  }

  // Blocked in all threads, so that sigwait below gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(flags.worker);
  if (!worker.ok()) {
    LogError("{}", worker.status().ToString());
    return absl::IsInvalidArgument(worker.status()) ? 2 : 1;
  }
  std::printf("listening on %s\n", (*worker)->control_address().c_str());
  std::fflush(stdout);
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  LogInfo("signal {}: shutting down", signal_number);
  (*worker)->Shutdown();
  worker->reset();
  std::error_code error;
  if (!temporary.empty()) std::filesystem::remove_all(temporary, error);
  return 0;
}

}  // namespace
}  // namespace pipedream

int main(int argc, char** argv) {
  CLI::App app("Runs stages of training jobs on one device.");
  pipedream::Flags flags;
  pipedream::AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  return pipedream::Run(std::move(flags));
}
