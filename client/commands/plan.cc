#include <csignal>

#include "client/commands/calls.h"
#include "client/exit_codes.h"
#include "client/interrupt.h"
#include "client/job_files.h"
#include "client/render/json.h"
#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/codec/plan_codec.h"
#include "common/plan/plan_table.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {

absl::StatusOr<int> PlanCommand(const CommandContext& context, const PlanOptions& options) {
  const Terminal& terminal = context.terminal;
  PD_ASSIGN_OR_RETURN(JobSpec spec, BuildJobSpec(options.job, *context.input));
  PD_ASSIGN_OR_RETURN(PreparedJob job, PrepareJob(std::move(spec), options.job));
  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  std::string server_version;
  PD_RETURN_IF_ERROR(CheckVersion(connection, &server_version));
  PD_RETURN_IF_ERROR(UploadBlobs(connection, job.blobs, terminal));
  if (terminal.progress != ProgressMode::kNone) {
    *terminal.err << "profiling the model and measuring links on the workers ..." << std::endl;
  }
  v1::PlanJobRequest request;
  *request.mutable_spec() = ToProto(job.spec);
  v1::PlanJobResponse response;
  grpc::ClientContext call;
  SetTimeout(&call, FromSeconds(options.timeout_s));
  InterruptScope interrupt;
  interrupt.SetCallback([&call] { call.TryCancel(); });
  grpc::Status status = connection.stub->PlanJob(&call, request, &response);
  interrupt.SetCallback(nullptr);
  if (interrupt.signal() != 0) {
    *terminal.err << "interrupted; nothing was planned\n";
    return interrupt.signal() == SIGTERM ? kExitTerminated : kExitInterrupted;
  }
  PD_RETURN_IF_ERROR(connection.Result(status));
  for (const std::string& warning : response.warnings()) {
    *terminal.err << Paint(terminal, "warning: ", kYellow) << warning << "\n";
  }
  if (terminal.format == OutputFormat::kJson) {
    *terminal.out << MessageJson("Plan", response);
  } else if (terminal.format == OutputFormat::kYaml) {
    *terminal.out << MessageYaml("Plan", response);
  } else {
    PD_ASSIGN_OR_RETURN(Plan plan, FromProto(response.plan()));
    *terminal.out << FormatPlanTable(plan);
  }
  return 0;
}

}  // namespace pipedream
