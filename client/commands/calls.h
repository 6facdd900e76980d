// Calls that several commands make.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <vector>

#include "client/commands/commands.h"

namespace pipedream {

absl::StatusOr<Connection> ConnectTo(const CommandContext& context);

// kNotFound hints at `get jobs`.
absl::StatusOr<v1::Job> FetchJob(const Connection& connection, const std::string& id);

struct JobHistory {
  v1::Job job;
  std::vector<v1::JobEvent> events;
};
// The job and all its events so far.
absl::StatusOr<JobHistory> FetchHistory(const Connection& connection, const std::string& id);

// kFailedPrecondition with reason VERSION_SKEW if the coordinator's version does not fit ours.
absl::Status CheckVersion(const Connection& connection, std::string* server_version);
// Same major and at most one minor apart. Versions that are not "x.y..." fit everything.
bool VersionsFit(std::string_view a, std::string_view b);
std::string_view ClientVersion();

// Follows a job to its end.
struct FollowOptions {
  std::string id;
  int64_t after_sequence = 0;
  double timeout_s = 0;                               // 0: none
  bool progress = false;                              // show it on terminal.err
  std::function<void(const v1::JobEvent&)> on_event;  // may be empty
};
struct FollowResult {
  v1::Job job;  // as last seen
  int exit_code = 0;
};
// Survives restarts of the coordinator for a while. Ctrl-C, SIGTERM and the time-out end the
// following, not the job; they say so on terminal.err.
absl::StatusOr<FollowResult> FollowJob(const CommandContext& context, const Connection& connection,
                                       const FollowOptions& options);

}  // namespace pipedream
