#include "client/exit_codes.h"

#include "common/base/status.h"

namespace pipedream {
namespace {

constexpr ExitCodeRow kTable[] = {
    {kExitOk, "ok; with --wait, --follow or logs -f: the job succeeded", "OK"},
    {kExitError, "any other error", "UNKNOWN, INTERNAL, DATA_LOSS"},
    {kExitUsage, "usage error: flags, arguments", ""},
    {kExitRejected, "job, model, data or plan rejected; file missing",
     "INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED"},
    {kExitNotFound, "not found: job, worker, blob", "NOT_FOUND"},
    {kExitNotAllowed, "not allowed", "UNAUTHENTICATED, PERMISSION_DENIED"},
    {kExitUnreachable, "coordinator unreachable after retries", "UNAVAILABLE"},
    {kExitTimeout, "--timeout hit, or no answer in time", "DEADLINE_EXCEEDED"},
    {kExitConflict, "conflict, wrong state or quota",
     "ALREADY_EXISTS, FAILED_PRECONDITION, ABORTED, RESOURCE_EXHAUSTED"},
    {kExitVersionSkew, "client and coordinator versions do not fit",
     "FAILED_PRECONDITION with reason VERSION_SKEW"},
    {kExitJobFailed, "the job failed (with --wait, --follow, logs -f, --exit-status)", ""},
    {kExitJobUnfinished, "the job has not finished (with --exit-status)", ""},
    {kExitJobCancelled, "the job was cancelled (with --wait, --follow, logs -f, --exit-status)",
     ""},
    {kExitNotVerified, "verify: the run is not what its schedule gives", ""},
    {kExitInterrupted, "interrupted by Ctrl-C; a job that was followed goes on", "CANCELLED"},
    {kExitTerminated, "terminated by SIGTERM; a job that was followed goes on", ""},
};

}  // namespace

std::span<const ExitCodeRow> ExitCodeTable() { return kTable; }

ExitCode ExitCodeOf(const absl::Status& status) {
  std::string reason = ReasonOf(status);
  if (reason == "VERSION_SKEW") return kExitVersionSkew;
  if (reason == kUsageReason) return kExitUsage;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return kExitRejected;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitNotAllowed;
    case absl::StatusCode::kUnavailable:
      return kExitUnreachable;
    case absl::StatusCode::kDeadlineExceeded:
      return kExitTimeout;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kResourceExhausted:
      return kExitConflict;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitError;
  }
}

ExitCode ExitCodeOf(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_SUCCEEDED:
      return kExitOk;
    case v1::JOB_STATE_FAILED:
      return kExitJobFailed;
    case v1::JOB_STATE_CANCELLED:
      return kExitJobCancelled;
    default:
      return kExitJobUnfinished;
  }
}

std::string_view StatusCodeName(absl::StatusCode code) {
  constexpr std::string_view kNames[] = {"OK",
                                         "CANCELLED",
                                         "UNKNOWN",
                                         "INVALID_ARGUMENT",
                                         "DEADLINE_EXCEEDED",
                                         "NOT_FOUND",
                                         "ALREADY_EXISTS",
                                         "PERMISSION_DENIED",
                                         "RESOURCE_EXHAUSTED",
                                         "FAILED_PRECONDITION",
                                         "ABORTED",
                                         "OUT_OF_RANGE",
                                         "UNIMPLEMENTED",
                                         "INTERNAL",
                                         "UNAVAILABLE",
                                         "DATA_LOSS",
                                         "UNAUTHENTICATED"};
  int index = static_cast<int>(code);
  return index >= 0 && index <= 16 ? kNames[index] : "UNKNOWN";
}

}  // namespace pipedream
