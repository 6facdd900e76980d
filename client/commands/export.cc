#include <filesystem>

#include "client/commands/calls.h"
#include "client/render/json.h"
#include "client/render/progress.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/rpc/grpc_blobs.h"

namespace pipedream {
namespace {

absl::Status CheckTarget(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument("--onnx {}: is a folder; name a file, such as {}/trained.onnx", path,
                           path);
  }
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    return InvalidArgument("--onnx {}: the folder {} does not exist", path, folder.string());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> Export(const CommandContext& context, const ExportOptions& options) {
  PD_RETURN_IF_ERROR(CheckTarget(options.path));
  PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
  PD_ASSIGN_OR_RETURN(v1::Job job, FetchJob(connection, options.id));
  if (job.state() != v1::JOB_STATE_SUCCEEDED || job.result_sha256().empty()) {
    return FailedPrecondition("job {} is {}: only a job that SUCCEEDED has a trained model",
                              job.id(), JobStateName(job.state()));
  }
  const Terminal& terminal = context.terminal;
  bool redraw = terminal.err_is_tty && terminal.progress == ProgressMode::kAuto;
  TransferOptions transfer;
  if (redraw) {
    transfer.progress = [&](int64_t done) {
      *terminal.err << fmt::format("\r\x1b[Kdownloading {}", FormatBytes(done)) << std::flush;
    };
  }
  absl::Status status = DownloadBlob(*connection.stub, job.result_sha256(), options.path, transfer);
  if (redraw) *terminal.err << "\r\x1b[K" << std::flush;
  PD_RETURN_IF_ERROR(connection.Result(ToGrpcStatus(status)));
  PD_ASSIGN_OR_RETURN(int64_t bytes, FileSize(options.path));
  if (terminal.format == OutputFormat::kJson) {
    v1::FileReference file;
    file.set_path(options.path);
    file.set_sha256(job.result_sha256());
    file.set_bytes(bytes);
    *terminal.out << MessageJson("File", file);
  } else if (terminal.format == OutputFormat::kName) {
    *terminal.out << options.path << "\n";
  } else {
    *terminal.out << fmt::format("{}: {}, trained by job {}\n", options.path, FormatBytes(bytes),
                                 job.id());
  }
  return 0;
}

}  // namespace pipedream
