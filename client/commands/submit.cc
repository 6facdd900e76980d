#include <sys/random.h>

#include <array>

#include "client/commands/calls.h"
#include "client/job_files.h"
#include "client/render/job_text.h"
#include "client/render/json.h"
#include "client/render/progress.h"
#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {
namespace {

// A random key, so that a repeated request cannot start a second job.
std::string NewKey() {
  std::array<unsigned char, 16> bytes{};
  PIPEDREAM_CHECK(getrandom(bytes.data(), bytes.size(), 0) == 16);
  std::string key;
  for (unsigned char byte : bytes) key += fmt::format("{:02x}", byte);
  return key;
}

void PrintWarnings(const Terminal& terminal, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    *terminal.err << Paint(terminal, "warning: ", kYellow) << warning << "\n";
  }
}

void PrintJob(const Terminal& terminal, const v1::Job& job, std::string_view what) {
  switch (terminal.format) {
    case OutputFormat::kName:
      *terminal.out << job.id() << std::endl;
      break;
    case OutputFormat::kJson:
      *terminal.out << MessageJson("Job", job) << std::flush;
      break;
    case OutputFormat::kYaml:
      *terminal.out << MessageYaml("Job", job) << std::flush;
      break;
    default:
      *terminal.out << fmt::format("job {} {}", job.id(), what) << std::endl;
  }
}

// The spec after all defaults, for a job that is only checked.
int PrintDryRun(const Terminal& terminal, const JobSpec& spec, std::string_view where) {
  switch (terminal.format) {
    case OutputFormat::kJson:
      *terminal.out << MessageJson("JobSpec", ToProto(spec));
      break;
    case OutputFormat::kYaml:
      *terminal.out << FormatJobYaml(spec);  // can be submitted with -f
      break;
    default:
      *terminal.out << fmt::format("the job is valid (checked by the {}); nothing was started\n",
                                   where);
  }
  return 0;
}

absl::StatusOr<v1::SubmitJobResponse> Send(const Connection& connection, const JobSpec& spec,
                                           const std::string& key, bool validate_only) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = ToProto(spec);
  request.set_idempotency_key(key);
  request.set_validate_only(validate_only);
  v1::SubmitJobResponse response;
  grpc::ClientContext call;
  SetTimeout(&call, kSubmitTimeout);
  PD_RETURN_IF_ERROR(connection.Result(connection.stub->SubmitJob(&call, request, &response)));
  return response;
}

absl::StatusOr<int> FollowToTheEnd(const CommandContext& context, const Connection& connection,
                                   const SubmitOptions& options, const std::string& id) {
  const Terminal& terminal = context.terminal;
  FollowOptions follow;
  follow.id = id;
  follow.timeout_s = options.timeout_s;
  follow.progress = options.follow;
  if (options.follow && terminal.progress != ProgressMode::kNone) {
    follow.on_event = [&](const v1::JobEvent& event) {
      *terminal.err << FormatEvent(event) << std::endl;
    };
  }
  PD_ASSIGN_OR_RETURN(FollowResult result, FollowJob(context, connection, follow));
  if (IsTerminal(result.job.state())) {
    if (terminal.machine_readable()) PrintJob(terminal, result.job, "");
    *terminal.err << FormatOutcome(result.job) << std::endl;
  }
  return result.exit_code;
}

}  // namespace

absl::StatusOr<int> Submit(const CommandContext& context, const SubmitOptions& options) {
  const Terminal& terminal = context.terminal;
  PD_ASSIGN_OR_RETURN(JobSpec spec, BuildJobSpec(options.job, *context.input));
  PD_ASSIGN_OR_RETURN(PreparedJob job, PrepareJob(std::move(spec), options.job));
  PrintWarnings(terminal, job.warnings);
  if (options.dry_run == DryRun::kClient) return PrintDryRun(terminal, job.spec, "client");

  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  std::string server_version;
  PD_RETURN_IF_ERROR(CheckVersion(connection, &server_version));
  PD_RETURN_IF_ERROR(UploadBlobs(connection, job.blobs, terminal));
  std::string key = options.idempotency_key.empty() ? NewKey() : options.idempotency_key;
  bool validate_only = options.dry_run == DryRun::kServer;
  PD_ASSIGN_OR_RETURN(v1::SubmitJobResponse response,
                      Send(connection, job.spec, key, validate_only));
  if (validate_only) return PrintDryRun(terminal, job.spec, "coordinator");

  bool stays = options.wait || options.follow;
  const std::string id = response.job().id();
  // For programs stdout holds one document: the job as it ended, if anybody waits for that.
  if (!stays || !terminal.machine_readable()) {
    PrintJob(terminal, response.job(),
             response.existed() ? "was submitted before with this idempotency key" : "submitted");
  }
  if (stays) return FollowToTheEnd(context, connection, options, id);
  *terminal.err << fmt::format("follow it: pipedream logs -f {}\n", id);
  return 0;
}

absl::StatusOr<int> Cancel(const CommandContext& context, const std::string& id) {
  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  grpc::ClientContext call;
  SetTimeout(&call, kCallTimeout);
  v1::CancelJobRequest request;
  request.set_job_id(id);
  v1::Job job;
  absl::Status status = connection.Result(connection.stub->CancelJob(&call, request, &job));
  if (absl::IsNotFound(status)) return NotFound("no job {}; `pipedream get jobs` lists them", id);
  PD_RETURN_IF_ERROR(status);
  bool before = IsTerminal(job.state()) && job.state() != v1::JOB_STATE_CANCELLED;
  PrintJob(context.terminal, job,
           before ? fmt::format("had ended before: {}", JobStateName(job.state())) : "cancelled");
  return 0;
}

}  // namespace pipedream
