#include <csignal>

#include "client/commands/calls.h"
#include "client/exit_codes.h"
#include "client/interrupt.h"
#include "client/render/json.h"
#include "client/render/verify_text.h"
#include "common/base/status.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {

absl::StatusOr<int> Verify(const CommandContext& context, const VerifyOptions& options) {
  const Terminal& terminal = context.terminal;
  if (terminal.format == OutputFormat::kName || terminal.format == OutputFormat::kMarkdown)
    return WithReason(InvalidArgument("-o: `pipedream verify` prints a table, json or yaml"),
                      kUsageReason);
  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  std::string server_version;
  PD_RETURN_IF_ERROR(CheckVersion(connection, &server_version));
  PD_RETURN_IF_ERROR(FetchJob(connection, options.id).status());
  if (terminal.progress != ProgressMode::kNone) {
    *terminal.err << "replaying the run on an idle worker ..." << std::endl;
  }
  v1::VerifyJobRequest request;
  request.set_job_id(options.id);
  request.set_minibatches(options.steps);
  v1::VerifyReport report;
  grpc::ClientContext call;
  SetTimeout(&call, FromSeconds(options.timeout_s));
  InterruptScope interrupt;
  interrupt.SetCallback([&call] { call.TryCancel(); });
  grpc::Status status = connection.stub->VerifyJob(&call, request, &report);
  interrupt.SetCallback(nullptr);
  if (interrupt.signal() != 0) {
    *terminal.err << "interrupted; nothing was verified\n";
    return interrupt.signal() == SIGTERM ? kExitTerminated : kExitInterrupted;
  }
  PD_RETURN_IF_ERROR(connection.Result(status));
  if (terminal.format == OutputFormat::kJson) {
    *terminal.out << MessageJson("VerifyReport", report);
  } else if (terminal.format == OutputFormat::kYaml) {
    *terminal.out << MessageYaml("VerifyReport", report);
  } else {
    *terminal.out << FormatVerifyReport(options.id, report, terminal.headers);
  }
  return report.verified() ? kExitOk : kExitNotVerified;
}

}  // namespace pipedream
