// From flags and a job file to a JobSpec.
#pragma once

#include <absl/status/statusor.h>

#include <istream>
#include <string>
#include <utility>
#include <vector>

#include "common/job/job_spec.h"

namespace pipedream {

// What `submit` and `plan` were told. Flags that set a key of the job file are kept as (key, value)
// in command-line order: "optimizer.lr" -> "0.01".
struct JobOptions {
  std::string file;  // -f; "-": standard input; empty: flags only
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> data;       // DIR, or NAME=FILE each
  std::vector<std::string> test_data;  // NAME=FILE
  std::string labels;                  // FILE or NAME=FILE
  std::string test_labels;
  std::vector<std::string> sets;  // --set key=value; after everything else
  // Applied once the columns are known; < 0 and 0: not given.
  double scale = -1;  // of model inputs, not labels
  int64_t limit = 0;  // rows of the training data
  int64_t test_limit = 0;
};

// The job file (paths in it become relative to the current folder), then flags, then --set. Of
// the files that it names, reads the schedule's and the plan's only. kInvalidArgument: what
// ParseJobYaml, SetScheduleTable, ReadPlan and Validate say, a --set without "=", data both as
// folder and by name.
absl::StatusOr<JobSpec> BuildJobSpec(const JobOptions& options, std::istream& standard_input);

// The same for planning without a model: only how the job is divided matters, and is checked.
absl::StatusOr<JobSpec> BuildLayoutSpec(const JobOptions& options, std::istream& standard_input);

// `scale`, `limit`, `test_limit` on the columns. REQUIRES: a spec resolved against its model.
void ApplyColumnOptions(const JobOptions& options, JobSpec* spec);

}  // namespace pipedream
