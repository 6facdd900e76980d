#include "client/commands/calls.h"

#include <charconv>
#include <cstdlib>

#include "client/render/progress.h"
#include "common/base/status.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {

absl::StatusOr<Connection> ConnectTo(const CommandContext& context) {
  PD_ASSIGN_OR_RETURN(ServerChoice server, ChooseServer(context.server));
  return Connect(server, context.insecure);
}

absl::StatusOr<v1::Job> FetchJob(const Connection& connection, const std::string& id) {
  grpc::ClientContext call;
  SetTimeout(&call, kCallTimeout);
  v1::GetJobRequest request;
  request.set_job_id(id);
  v1::Job job;
  absl::Status status = connection.Result(connection.stub->GetJob(&call, request, &job));
  if (absl::IsNotFound(status)) {
    return NotFound("no job {}; `pipedream get jobs` lists them", id);
  }
  PD_RETURN_IF_ERROR(status);
  return job;
}

absl::StatusOr<JobHistory> FetchHistory(const Connection& connection, const std::string& id) {
  JobHistory history;
  PD_ASSIGN_OR_RETURN(history.job, FetchJob(connection, id));
  int64_t last = history.job.last_sequence();
  if (last == 0) return history;
  grpc::ClientContext call;
  SetTimeout(&call, kCallTimeout);
  v1::WatchJobRequest request;
  request.set_job_id(id);
  auto reader = connection.stub->WatchJob(&call, request);
  v1::WatchJobResponse response;
  bool complete = false;
  while (!complete && reader->Read(&response)) {
    for (v1::JobEvent& event : *response.mutable_events()) {
      complete |= event.sequence() >= last;
      history.events.push_back(std::move(event));
    }
    // Events are kept for a bounded time; the newest may be gone.
    complete |= IsTerminal(response.job().state());
  }
  if (complete) call.TryCancel();
  absl::Status status = connection.Result(reader->Finish());
  if (!complete) PD_RETURN_IF_ERROR(status);
  return history;
}

std::string_view ClientVersion() { return PIPEDREAM_VERSION; }

bool VersionsFit(std::string_view a, std::string_view b) {
  auto read = [](std::string_view text, int* major, int* minor) {
    auto [dot, error] = std::from_chars(text.data(), text.data() + text.size(), *major);
    const char* end = text.data() + text.size();
    if (error != std::errc() || dot == end || *dot != '.') return false;
    return std::from_chars(dot + 1, end, *minor).ec == std::errc();
  };
  int a_major = 0, a_minor = 0, b_major = 0, b_minor = 0;
  if (!read(a, &a_major, &a_minor) || !read(b, &b_major, &b_minor)) return true;
  return a_major == b_major && std::abs(a_minor - b_minor) <= 1;
}

absl::Status CheckVersion(const Connection& connection, std::string* server_version) {
  grpc::ClientContext call;
  SetTimeout(&call, kCallTimeout);
  v1::GetVersionRequest request;
  request.set_client_version(std::string(ClientVersion()));
  v1::GetVersionResponse response;
  PD_RETURN_IF_ERROR(connection.Result(connection.stub->GetVersion(&call, request, &response)));
  *server_version = response.version();
  if (!VersionsFit(ClientVersion(), response.version())) {
    return WithReason(
        FailedPrecondition("this command is version {}, the coordinator at {} is {}; install "
                           "versions that differ by at most one minor number",
                           ClientVersion(), connection.peer.address, response.version()),
        "VERSION_SKEW");
  }
  return absl::OkStatus();
}

}  // namespace pipedream
