#include "coordinator/job/job.h"

namespace pipedream {

bool IsTerminal(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

std::string_view ToString(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kProfiling:
      return "PROFILING";
    case JobState::kPartitioning:
      return "PARTITIONING";
    case JobState::kPlacing:
      return "PLACING";
    case JobState::kStarting:
      return "STARTING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kFinishing:
      return "FINISHING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "?";
}

}  // namespace pipedream
