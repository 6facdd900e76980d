// simulator_accuracy: runs schedules for real, feeds what their instructions took to the simulator,
// and prints what it makes of them beside what was measured. The first minibatch warms up and does
// not count.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/measured_costs.h"
#include "bench/real_run.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

struct Options {
  std::vector<std::string> schedules = {"1f1b",  "gpipe",       "pipedream",
                                        "2bw",   "interleaved", "zb_h1",
                                        "zb_h2", "zb_v",        "data_parallel"};
  std::vector<int> workers = {2, 4};
  double device_time_ms = 0;
  int minibatches = 6;
  int microbatches = 8;
  int repeat = 3;
  std::string transport = "shm";
  std::string trace;
};

struct Result {
  RunTimes measured, simulated;
  double off_span() const { return simulated.span_s / measured.span_s - 1; }
  double off_minibatch() const { return simulated.minibatch_s / measured.minibatch_s - 1; }
};

absl::Status WriteTrace(const std::string& path, std::span<const Span> spans) {
  std::ofstream file(path, std::ios::trunc);
  file << ChromeTrace(spans);
  if (!file.flush()) return Unavailable("cannot write '{}'", path);
  return absl::OkStatus();
}

absl::StatusOr<Result> RunOnce(const ChainJob& job, const RealRunOptions& options,
                               const std::string& trace) {
  PD_ASSIGN_OR_RETURN(RealRun run, RunForReal(job, options));
  PD_ASSIGN_OR_RETURN(Simulation played,
                      Simulate(run.programs, MeasuredCosts(run, options.microbatches)));
  if (!trace.empty()) {
    const std::string path = fmt::format("{}/{}-{}", trace, options.schedule, options.devices);
    PD_RETURN_IF_ERROR(WriteTrace(path + "-measured.json", run.spans));
    PD_RETURN_IF_ERROR(WriteTrace(path + "-simulated.json", played.spans));
  }
  return Result{TimesOf(run.spans, options.microbatches, options.minibatches),
                TimesOf(played.spans, options.microbatches, options.minibatches)};
}

absl::Status RunAll(const Options& options) {
  const bool paced = options.device_time_ms > 0;
  RealRunOptions real;
  real.microbatches = options.microbatches;
  real.minibatches = options.minibatches;
  real.transport = options.transport;
  real.pace = FromSeconds(options.device_time_ms / 1000);
  // Where the kernels set the pace, they must take long enough for messages not to.
  real.microbatch_size = paced ? 2 : 8;
  ChainOptions chain = paced ? ChainOptions{8, 16, 0} : ChainOptions{32, 32, 0};
  chain.samples = int64_t{real.microbatch_size} * options.microbatches * options.minibatches;
  PD_ASSIGN_OR_RETURN(std::unique_ptr<ChainJob> job, ChainJob::Create(chain));

  std::printf("%-13s %7s %12s %12s %8s %14s %12s %8s\n", "schedule", "workers", "measured ms",
              "simulated", "off", "per minibatch", "simulated", "off");
  double worst = 0, worst_of_all = 0;
  auto widen = [](double* most, const Result& result) {
    for (double off : {result.off_span(), result.off_minibatch()})
      *most = std::max(*most, std::abs(off));
  };
  for (int workers : options.workers) {
    for (const std::string& schedule : options.schedules) {
      real.devices = workers;
      real.schedule = schedule;
      std::vector<Result> results;
      for (int k = 0; k < options.repeat; ++k) {
        PD_ASSIGN_OR_RETURN(Result result, RunOnce(*job, real, k == 0 ? options.trace : ""));
        widen(&worst_of_all, result);
        results.push_back(result);
      }
      auto middle = results.begin() + static_cast<std::ptrdiff_t>(results.size() / 2);
      std::nth_element(results.begin(), middle, results.end(), [](const auto& a, const auto& b) {
        return a.measured.span_s < b.measured.span_s;
      });
      std::printf("%-13s %7d %12.1f %12.1f %+7.1f%% %14.2f %12.2f %+7.1f%%\n", schedule.c_str(),
                  workers, middle->measured.span_s * 1e3, middle->simulated.span_s * 1e3,
                  middle->off_span() * 100, middle->measured.minibatch_s * 1e3,
                  middle->simulated.minibatch_s * 1e3, middle->off_minibatch() * 100);
      std::fflush(stdout);
      widen(&worst, *middle);
    }
  }
  std::printf("largest deviation: %.1f %%, in any run %.1f %%\n", worst * 100, worst_of_all * 100);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Compares the schedule simulator with real runs.");
  app.add_option("--schedules", options.schedules, "Names, as in pipedream schedule list")
      ->delimiter(',');
  app.add_option("--workers", options.workers, "Numbers that divide 8")
      ->delimiter(',')
      ->check(CLI::IsMember({1, 2, 4}));
  app.add_option(
         "--device-time", options.device_time_ms,
         "A convolution takes so many milliseconds without using a core, as on a device; 0: "
         "as long as it takes")
      ->check(CLI::Range(0.0, 1000.0));
  app.add_option("--minibatches", options.minibatches, "The first one does not count")
      ->check(CLI::Range(2, 1000));
  app.add_option("--microbatches", options.microbatches, "Per minibatch")
      ->check(CLI::Range(1, 1000));
  app.add_option("--repeat", options.repeat, "Runs; the one of the median time is shown")
      ->check(CLI::Range(1, 100));
  app.add_option("--transport", options.transport, "Of messages between workers")
      ->check(CLI::IsMember({"local", "shm", "tcp"}));
  app.add_option("--trace", options.trace,
                 "Folder for traces of the first runs, for ui.perfetto.dev")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = RunAll(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace pipedream

int main(int argc, char** argv) { return pipedream::Main(argc, argv); }
