// What the command's exit code says. One table: the code, `pipedream help exit-codes` and
// docs/cli.md agree with it (tested).
#pragma once

#include <absl/status/status.h>

#include <span>
#include <string>
#include <string_view>

#include "pipedream/v1/job.pb.h"

namespace pipedream {

enum ExitCode : int {
  kExitOk = 0,
  kExitError = 1,
  kExitUsage = 2,
  kExitRejected = 3,
  kExitNotFound = 4,
  kExitNotAllowed = 5,
  kExitUnreachable = 6,
  kExitTimeout = 7,
  kExitConflict = 8,
  kExitVersionSkew = 9,
  kExitJobFailed = 100,
  kExitJobUnfinished = 101,
  kExitJobCancelled = 103,
  kExitNotVerified = 104,
  kExitInterrupted = 130,
  kExitTerminated = 143,
};

struct ExitCodeRow {
  ExitCode code;
  std::string_view meaning;
  std::string_view grpc_codes;  // that lead to it
};

std::span<const ExitCodeRow> ExitCodeTable();

// Reason of errors that lie in flags and arguments rather than in what they name.
inline constexpr char kUsageReason[] = "USAGE";

ExitCode ExitCodeOf(const absl::Status& status);
// Of a job that somebody waited for.
ExitCode ExitCodeOf(v1::JobState state);

// "NOT_FOUND".
std::string_view StatusCodeName(absl::StatusCode code);

}  // namespace pipedream
