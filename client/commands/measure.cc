#include "client/commands/measure.h"

#include <csignal>

#include "client/commands/calls.h"
#include "client/exit_codes.h"
#include "client/interrupt.h"
#include "client/job_files.h"
#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/codec/plan_codec.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {

absl::StatusOr<MeasureResult> AskForPlan(const CommandContext& context, const JobOptions& options,
                                         double timeout_s, bool measure_only) {
  const Terminal& terminal = context.terminal;
  PD_ASSIGN_OR_RETURN(JobSpec spec, BuildJobSpec(options, *context.input));
  PD_ASSIGN_OR_RETURN(PreparedJob job, PrepareJob(std::move(spec), options));
  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  std::string server_version;
  PD_RETURN_IF_ERROR(CheckVersion(connection, &server_version));
  PD_RETURN_IF_ERROR(UploadBlobs(connection, job.blobs, terminal));
  if (terminal.progress != ProgressMode::kNone) {
    *terminal.err << "profiling the model and measuring links on the workers ..." << std::endl;
  }
  v1::PlanJobRequest request;
  *request.mutable_spec() = ToProto(job.spec);
  request.set_measure_only(measure_only);
  v1::PlanJobResponse response;
  grpc::ClientContext call;
  SetTimeout(&call, FromSeconds(timeout_s));
  InterruptScope interrupt;
  interrupt.SetCallback([&call] { call.TryCancel(); });
  grpc::Status status = connection.stub->PlanJob(&call, request, &response);
  interrupt.SetCallback(nullptr);
  MeasureResult result;
  if (interrupt.signal() != 0) {
    *terminal.err << "interrupted; nothing was planned\n";
    result.exit_code = interrupt.signal() == SIGTERM ? kExitTerminated : kExitInterrupted;
    return result;
  }
  PD_RETURN_IF_ERROR(connection.Result(status));
  for (const std::string& warning : response.warnings()) {
    *terminal.err << Paint(terminal, "warning: ", kYellow) << warning << "\n";
    result.origin.model_warnings.push_back(warning);
  }
  result.spec = std::move(job.spec);
  PD_ASSIGN_OR_RETURN(result.plan, FromProto(response.plan()));
  PD_ASSIGN_OR_RETURN(result.origin.topology, FromProto(response.topology()));
  for (const v1::Profile& profile : response.profiles()) {
    PD_ASSIGN_OR_RETURN(Profile value, FromProto(profile));
    result.origin.profiles.push_back(std::move(value));
  }
  return result;
}

}  // namespace pipedream
