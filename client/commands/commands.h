// The commands as plain functions: options in, exit code out. Data goes to terminal.out, all else
// to terminal.err. An error status is printed by the caller and becomes the exit code by the table
// in exit_codes.h.
#pragma once

#include <absl/status/statusor.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/job_options.h"
#include "client/terminal.h"
#include "common/base/clock.h"
#include "common/schedule/report.h"

namespace pipedream {

struct CommandContext {
  Terminal terminal;
  ServerInputs server;
  bool insecure = false;  // plain text to another machine
  std::istream* input = nullptr;
  const Clock* clock = nullptr;
};

enum class DryRun { kNo, kClient, kServer };

struct SubmitOptions {
  JobOptions job;
  bool wait = false;
  bool follow = false;
  double timeout_s = 0;  // of waiting; 0: none
  DryRun dry_run = DryRun::kNo;
  std::string idempotency_key;  // empty: made up
};
absl::StatusOr<int> Submit(const CommandContext& context, const SubmitOptions& options);

// With profiles and a topology from files no coordinator is asked, and the job needs no model.
struct PlanOptions {
  JobOptions job;
  double timeout_s = 600;
  std::vector<std::string> profiles;  // files, in place of measuring
  std::string topology;               // file, in place of the workers
  std::string rule = "measured";
  bool workers_may_idle = true;
  std::string what_if;       // "workers=8,link=25G" (what_if.h)
  int64_t memory_limit = 0;  // of every worker; 0: what it has
  std::string save;          // file for the plan
  bool explain = false;      // the table says more
};
absl::StatusOr<int> PlanCommand(const CommandContext& context, const PlanOptions& options);

struct ProfileOptions {
  JobOptions job;             // to make one
  std::string file;           // to show one
  double timeout_s = 600;
  std::string save;           // file for the profile
  std::string save_topology;  // file for the workers and links that were measured with it
};
// Has a worker of each kind measure the job's model; prints and saves.
absl::StatusOr<int> ProfileMake(const CommandContext& context, const ProfileOptions& options);
absl::StatusOr<int> ProfileShow(const CommandContext& context, const ProfileOptions& options);

struct GetOptions {
  std::vector<std::string> ids;     // empty: all
  std::vector<std::string> states;  // "RUNNING", in any case
  int limit = 100;
  bool exit_status = false;  // of one job: its state as exit code
};
absl::StatusOr<int> GetJobs(const CommandContext& context, const GetOptions& options);
absl::StatusOr<int> GetWorkers(const CommandContext& context, const GetOptions& options);

struct DescribeOptions {
  std::string id;
  int events = 20;  // the latest ones
};
absl::StatusOr<int> DescribeJobCommand(const CommandContext& context,
                                       const DescribeOptions& options);

struct LogsOptions {
  std::string id;
  bool follow = false;
  int tail = -1;  // < 0: all
  double timeout_s = 0;
};
absl::StatusOr<int> Logs(const CommandContext& context, const LogsOptions& options);

absl::StatusOr<int> Cancel(const CommandContext& context, const std::string& id);

struct ExportOptions {
  std::string id;
  std::string path;
};
absl::StatusOr<int> Export(const CommandContext& context, const ExportOptions& options);

struct VerifyOptions {
  std::string id;
  int64_t steps = 0;  // minibatches to replay; 0: as many as take about 10 s
  double timeout_s = 600;
};
absl::StatusOr<int> Verify(const CommandContext& context, const VerifyOptions& options);

absl::StatusOr<int> Version(const CommandContext& context, bool client_only);

struct LocalOptions {
  int workers = 4;
  int threads = 0;           // per worker; 0: the machine's shared out
  std::string state_dir;     // empty: a new temporary folder, removed at the end
  int port = -1;             // < 0: 7070, or any free one for a command
  int64_t memory_bytes = 0;  // per worker; 0: its own default
  std::string transport;     // empty: the workers' default
  std::vector<std::string> command;
};
absl::StatusOr<int> Local(const CommandContext& context, const LocalOptions& options);

// What a schedule does and costs, on paper; no coordinator is asked.
absl::StatusOr<int> ScheduleList(const CommandContext& context);

struct ScheduleShowOptions {
  std::string name;         // of a schedule of the library; else
  std::string file;         // a table in text form or CSV; "-" reads standard input
  PipelineSpec pipeline;    // of `name`
  int64_t minibatches = 0;  // to draw; 0: as many as show the pattern
  UnitCosts costs;
  std::string trace;  // file to write a Perfetto trace to
  std::string table;  // "text" or "csv": print the compute instructions so, and nothing else
};
absl::StatusOr<int> ScheduleShow(const CommandContext& context, const ScheduleShowOptions& options);

// All schedules on all pipelines, with each link latency.
struct ScheduleCompareOptions {
  std::vector<int> stages = {4, 8};
  std::vector<int> microbatches = {8, 32};
  std::vector<int> chunks = {2, 4};  // of schedules that take several stages per device
  std::vector<double> links = {0, 0.25, 0.5, 1};
  UnitCosts costs;
};
absl::StatusOr<int> ScheduleCompare(const CommandContext& context,
                                    const ScheduleCompareOptions& options);

void PrintExitCodes(std::ostream& out);

// One line, or a JSON object where the format is for programs.
void PrintError(const Terminal& terminal, const absl::Status& status, int exit_code);

}  // namespace pipedream
