#include "client/commands/calls.h"
#include "client/render/job_text.h"
#include "client/render/json.h"
#include "client/render/progress.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

void PrintEvent(const Terminal& terminal, const v1::JobEvent& event) {
  // One JSON object a line: logs are a stream.
  if (terminal.format == OutputFormat::kJson) {
    *terminal.out << MessageJsonLine("JobEvent", event) << std::flush;
  } else if (terminal.format == OutputFormat::kYaml) {
    *terminal.out << "---\n" << MessageYaml("JobEvent", event) << std::flush;
  } else {
    *terminal.out << FormatEvent(event) << std::endl;
  }
}

}  // namespace

absl::StatusOr<int> Logs(const CommandContext& context, const LogsOptions& options) {
  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  PD_ASSIGN_OR_RETURN(JobHistory history, FetchHistory(connection, options.id));
  size_t first = 0;
  if (options.tail >= 0 && history.events.size() > static_cast<size_t>(options.tail)) {
    first = history.events.size() - options.tail;
  }
  for (size_t i = first; i < history.events.size(); ++i) {
    PrintEvent(context.terminal, history.events[i]);
  }
  if (!options.follow) return 0;
  FollowOptions follow;
  follow.id = options.id;
  follow.timeout_s = options.timeout_s;
  follow.after_sequence = history.events.empty() ? 0 : history.events.back().sequence();
  follow.progress = true;
  follow.on_event = [&](const v1::JobEvent& event) { PrintEvent(context.terminal, event); };
  PD_ASSIGN_OR_RETURN(FollowResult result, FollowJob(context, connection, follow));
  if (IsTerminal(result.job.state())) *context.terminal.err << FormatOutcome(result.job) << "\n";
  return result.exit_code;
}

}  // namespace pipedream
