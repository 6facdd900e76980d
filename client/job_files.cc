#include "client/job_files.h"

#include <filesystem>
#include <set>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/graph/model.h"
#include "common/job/resolve.h"

namespace pipedream {
namespace {

// To the user a missing file is a mistake in the job, whatever the file system calls it.
absl::Status AsRejection(const absl::Status& status) {
  if (status.ok() || status.code() == absl::StatusCode::kUnimplemented ||
      status.code() == absl::StatusCode::kResourceExhausted) {
    return status;
  }
  std::string message(status.message().data(), status.message().size());
  return WithReason(absl::InvalidArgumentError(message), ReasonOf(status));
}

absl::StatusOr<FileReference> Reference(const std::string& path, PreparedJob* job) {
  absl::StatusOr<BlobInfo> blob = HashFile(path);
  if (!blob.ok()) return AsRejection(blob.status());
  job->blobs.push_back(*blob);
  return FileReference{path, blob->sha256, blob->bytes};
}

bool IsShared(const std::string& path) { return path.starts_with("shared:"); }

}  // namespace

absl::StatusOr<PreparedJob> PrepareJob(JobSpec spec, const JobOptions& options) {
  PreparedJob job;
  auto model = Model::Load(spec.model.path);
  if (!model.ok()) {
    std::string_view message(model.status().message().data(), model.status().message().size());
    bool named = message.find(spec.model.path) != std::string_view::npos;
    return AsRejection(named ? model.status()
                             : Annotate(model.status(), fmt::format("model {}", spec.model.path)));
  }
  job.warnings = (*model)->warnings();
  absl::StatusOr<JobSpec> resolved = ResolveAgainstModel(std::move(spec), **model);
  if (!resolved.ok()) return AsRejection(resolved.status());
  job.spec = *std::move(resolved);
  ApplyColumnOptions(options, &job.spec);
  PD_RETURN_IF_ERROR(Validate(job.spec));

  std::filesystem::path folder = std::filesystem::path(job.spec.model.path).parent_path();
  PD_ASSIGN_OR_RETURN(job.spec.model, Reference(job.spec.model.path, &job));
  job.spec.model_data.clear();
  for (const std::string& location : (*model)->external_files()) {
    PD_ASSIGN_OR_RETURN(FileReference file, Reference((folder / location).string(), &job));
    file.path = location;
    job.spec.model_data.push_back(std::move(file));
  }
  job.spec.data_files.clear();
  std::set<std::string> seen;
  for (const auto* columns : {&job.spec.train_columns, &job.spec.evaluation_columns}) {
    for (const ColumnSpec& column : *columns) {
      for (const std::string& path : {column.path, column.vocabulary_path}) {
        if (path.empty() || IsShared(path) || !seen.insert(path).second) continue;
        PD_ASSIGN_OR_RETURN(FileReference file, Reference(path, &job));
        job.spec.data_files.push_back(std::move(file));
      }
    }
  }
  return job;
}

absl::Status UploadBlobs(const Connection& connection, const std::vector<BlobInfo>& blobs,
                         const Terminal& terminal) {
  absl::StatusOr<std::vector<BlobInfo>> missing = MissingBlobs(*connection.stub, blobs);
  auto explain = [&](const absl::Status& status) {
    return connection.Result(ToGrpcStatus(status));
  };
  if (!missing.ok()) return explain(missing.status());
  int64_t total = 0;
  for (const BlobInfo& blob : *missing) total += blob.bytes;
  bool show = terminal.progress != ProgressMode::kNone;
  bool redraw = show && terminal.err_is_tty && terminal.progress == ProgressMode::kAuto;
  Duration start = SystemClock()->Now();
  int64_t before = 0;
  for (const BlobInfo& blob : *missing) {
    TransferOptions options;
    if (redraw) {
      options.progress = [&](int64_t done) {
        *terminal.err << fmt::format("\r\x1b[Kuploading {} of {}", FormatBytes(before + done),
                                     FormatBytes(total))
                      << std::flush;
      };
    }
    absl::Status status = UploadBlob(*connection.stub, blob, options);
    if (redraw) *terminal.err << "\r\x1b[K" << std::flush;
    if (!status.ok()) return Annotate(explain(status), fmt::format("uploading {}", blob.path));
    before += blob.bytes;
  }
  if (show && !missing->empty()) {
    *terminal.err << fmt::format("uploaded {} file{}, {} in {}\n", missing->size(),
                                 missing->size() == 1 ? "" : "s", FormatBytes(total),
                                 FormatSeconds(ToSeconds(SystemClock()->Now() - start)));
  }
  return absl::OkStatus();
}

}  // namespace pipedream
