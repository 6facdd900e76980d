// Runs events through a JobMachine and writes down what follows, one line per effect, for
// comparison with what a person wrote. Effects that only tell (watchers, log lines) are left out
// unless asked.
#pragma once

#include <string>
#include <vector>

#include "coordinator/job/job_machine.h"

namespace pipedream {

class Scenario {
 public:
  explicit Scenario(JobMachineOptions options = {}, std::map<std::string, Profile> profiles = {})
      : machine(options, std::move(profiles)) {}

  // Effects of one event as text: "profile w1; links w1>w2; ...".
  std::string On(const Event& event);
  std::string Restore(std::vector<Job> jobs);
  // Advances time, then a Tick.
  std::string After(double seconds);
  void Advance(double seconds);

  // Shorthand for the usual way.
  std::string Register(const std::string& id, const std::string& kind = "cpu");
  std::string Submit(const std::string& id, int workers, double start_timeout_s = 600);
  std::string Lose(const std::string& id, const std::string& cause = "no heartbeat for 3.1 s");
  std::string Profiled(const std::string& job, const std::string& worker = "w1");
  std::string Linked(const std::string& job);
  // One stage per entry, with the workers of its replicas.
  std::string Planned(const std::string& job, const std::vector<std::vector<std::string>>& stages);
  std::string Prepared(const std::string& job, const std::string& worker);
  std::string Started(const std::string& job, const std::string& worker);
  std::string Reported(const std::string& job, const std::string& worker,
                       StageReported::State state, const std::string& operation = "F1",
                       int64_t backward = 0);
  std::string ReportedFailure(const std::string& job, const std::string& worker,
                              const std::string& reason, absl::StatusCode code,
                              const std::string& message);
  // With a ledger of that stage.
  std::string ReportedLedger(const std::string& job, const std::string& worker, int stage,
                             StageReported::State state);
  std::string Verify(const std::string& id);
  std::string Aborted(const std::string& job, const std::string& worker);
  // Two workers w1, w2 as two stages of `job`, up to the given state.
  void BringTo(const std::string& job, JobState state);

  // The last state told to watchers.
  const Job& Seen(const std::string& job) const { return seen_.at(job); }
  bool Has(const std::string& job) const { return seen_.count(job) != 0; }

  JobMachine machine;

 private:
  std::string Write(std::vector<Effect> effects);
  Time now_{std::chrono::seconds(100), 1'000'000};
  std::map<std::string, Job> seen_;
};

}  // namespace pipedream
