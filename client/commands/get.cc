#include <algorithm>
#include <cctype>

#include "client/commands/calls.h"
#include "client/exit_codes.h"
#include "client/render/job_text.h"
#include "client/render/json.h"
#include "client/render/progress.h"
#include "common/base/status.h"
#include "common/base/nearest_name.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {
namespace {

absl::StatusOr<v1::JobState> ParseState(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::vector<std::string> names;
  for (int i = v1::JOB_STATE_UNSPECIFIED + 1; i <= v1::JobState_MAX; ++i) {
    auto state = static_cast<v1::JobState>(i);
    names.push_back(JobStateName(state));
    if (names.back() == text) return state;
  }
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  return WithReason(InvalidArgument("--state {}: no such state; did you mean {}? Known: {}", text,
                                    NearestName(text, names), known),
                    kUsageReason);
}

absl::StatusOr<std::vector<v1::Job>> ListJobs(const Connection& connection,
                                              const GetOptions& options) {
  v1::ListJobsRequest request;
  for (const std::string& text : options.states) {
    PD_ASSIGN_OR_RETURN(v1::JobState state, ParseState(text));
    request.add_states(state);
  }
  std::vector<v1::Job> jobs;
  do {
    int rest = options.limit - static_cast<int>(jobs.size());
    request.set_page_size(std::min(rest, 100));
    grpc::ClientContext call;
    SetTimeout(&call, kCallTimeout);
    v1::ListJobsResponse page;
    PD_RETURN_IF_ERROR(connection.Result(connection.stub->ListJobs(&call, request, &page)));
    for (v1::Job& job : *page.mutable_jobs()) {
      if (static_cast<int>(jobs.size()) < options.limit) jobs.push_back(std::move(job));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && static_cast<int>(jobs.size()) < options.limit);
  return jobs;
}

template <typename Message>
std::vector<const google::protobuf::Message*> Pointers(const std::vector<Message>& messages) {
  std::vector<const google::protobuf::Message*> pointers;
  for (const Message& message : messages) pointers.push_back(&message);
  return pointers;
}

// Everything but the table.
template <typename Message>
bool PrintStructured(const Terminal& terminal, std::string_view kind,
                     const std::vector<Message>& items) {
  switch (terminal.format) {
    case OutputFormat::kJson:
      *terminal.out << ListJson(kind, Pointers(items));
      return true;
    case OutputFormat::kYaml:
      *terminal.out << ListYaml(kind, Pointers(items));
      return true;
    case OutputFormat::kName:
      for (const Message& item : items) *terminal.out << item.id() << "\n";
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<int> GetJobs(const CommandContext& context, const GetOptions& options) {
  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  std::vector<v1::Job> jobs;
  if (options.ids.empty()) {
    PD_ASSIGN_OR_RETURN(jobs, ListJobs(connection, options));
  }
  for (const std::string& id : options.ids) {
    PD_ASSIGN_OR_RETURN(v1::Job job, FetchJob(connection, id));
    jobs.push_back(std::move(job));
  }
  const Terminal& terminal = context.terminal;
  if (!PrintStructured(terminal, "JobList", jobs)) {
    if (jobs.empty())
      *terminal.err << "no jobs\n";
    else
      *terminal.out << FormatJobTable(jobs, terminal.format == OutputFormat::kWide,
                                      terminal.headers, context.clock->UnixMicros());
  }
  return options.exit_status && jobs.size() == 1 ? ExitCodeOf(jobs[0].state()) : 0;
}

absl::StatusOr<int> GetWorkers(const CommandContext& context, const GetOptions& options) {
  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  grpc::ClientContext call;
  SetTimeout(&call, kCallTimeout);
  v1::ListWorkersResponse response;
  PD_RETURN_IF_ERROR(connection.Result(connection.stub->ListWorkers(&call, {}, &response)));
  std::vector<v1::Worker> workers;
  for (v1::Worker& worker : *response.mutable_workers()) {
    bool wanted = options.ids.empty() || std::find(options.ids.begin(), options.ids.end(),
                                                   worker.id()) != options.ids.end();
    if (wanted) workers.push_back(std::move(worker));
  }
  if (!options.ids.empty() && workers.empty()) {
    return NotFound("no worker {}; `pipedream get workers` lists them", options.ids[0]);
  }
  const Terminal& terminal = context.terminal;
  if (!PrintStructured(terminal, "WorkerList", workers)) {
    if (workers.empty())
      *terminal.err << "no workers\n";
    else
      *terminal.out << FormatWorkerTable(workers, terminal.format == OutputFormat::kWide,
                                         terminal.headers, context.clock->UnixMicros());
  }
  return 0;
}

absl::StatusOr<int> DescribeJobCommand(const CommandContext& context,
                                       const DescribeOptions& options) {
  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  const Terminal& terminal = context.terminal;
  PD_ASSIGN_OR_RETURN(JobHistory history, FetchHistory(connection, options.id));
  if (terminal.format == OutputFormat::kName) {
    *terminal.out << history.job.id() << "\n";
  } else if (terminal.machine_readable()) {
    v1::WatchJobResponse whole;  // job and events
    *whole.mutable_job() = history.job;
    for (v1::JobEvent& event : history.events) *whole.add_events() = std::move(event);
    *terminal.out << (terminal.format == OutputFormat::kJson
                          ? MessageJson("JobDescription", whole)
                          : MessageYaml("JobDescription", whole));
  } else {
    auto& events = history.events;
    int surplus = static_cast<int>(events.size()) - options.events;
    if (surplus > 0) events.erase(events.begin(), events.begin() + surplus);
    *terminal.out << DescribeJob(history.job, events);
  }
  return 0;
}

}  // namespace pipedream
