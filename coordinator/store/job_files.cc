#include "coordinator/store/job_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "common/base/status.h"

namespace pipedream {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kShared = "shared:";

absl::Status CheckPresent(const JobSpec& spec, const BlobStore& blobs) {
  std::string missing;
  int count = 0;
  auto check = [&](const FileReference& file) {
    if (std::string_view(file.path).starts_with(kShared) || blobs.Has(file.sha256)) return;
    if (count++ < 20)
      missing += fmt::format("{}'{}' ({})", missing.empty() ? "" : ", ", file.path,
                             file.sha256.empty() ? "no hash" : file.sha256);
  };
  check(spec.model);
  for (const FileReference& file : spec.model_data) check(file);
  for (const FileReference& file : spec.data_files) check(file);
  if (count == 0) return absl::OkStatus();
  return WithReason(FailedPrecondition("{} files are not in the blob store; upload them first: {}",
                                       count, missing),
                    "BLOB_MISSING");
}

// Where the file's content lies.
absl::StatusOr<std::string> Source(const FileReference& file, const BlobStore& blobs,
                                   const std::string& data_root) {
  std::string_view path = file.path;
  if (!path.starts_with(kShared)) return blobs.PathOf(file.sha256);
  if (data_root.empty())
    return InvalidArgument("'{}': this coordinator has no shared data root; upload the file", path);
  return ResolveUnder(data_root, std::string(path.substr(kShared.size())));
}

// Model files: `relative` to the model's folder, never outside.
absl::StatusOr<std::string> Target(const std::string& root, const std::string& relative) {
  fs::path path = fs::path(relative).lexically_normal();
  if (relative.empty() || path.is_absolute() || path.filename().empty() ||
      relative.find('\0') != std::string::npos || *path.begin() == "..")
    return InvalidArgument("model_data path '{}' must be relative to the model and below it",
                           relative);
  return (fs::path(root) / path).string();
}

absl::Status Link(const std::string& source, const std::string& target) {
  PD_RETURN_IF_ERROR(MakeDirectories(fs::path(target).parent_path().string()));
  if (link(source.c_str(), target.c_str()) == 0) return absl::OkStatus();
  int error = errno;
  if (error == EEXIST) return InvalidArgument("two files of the job have the path '{}'", target);
  std::error_code copied;  // another file system, or one without hard links
  fs::copy_file(source, target, copied);
  if (copied) return Unavailable("cannot link '{}': {}", target, std::strerror(error));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobFiles> JobFiles::Open(const JobSpec& spec, BlobStore* blobs,
                                        const std::string& data_root) {
  PD_RETURN_IF_ERROR(CheckPresent(spec, *blobs));
  JobFiles files;
  PD_ASSIGN_OR_RETURN(files.folder_, blobs->MakeWorkFolder());
  std::string model_folder = files.folder_ + "/model";
  files.model_path_ = model_folder + "/model.onnx";
  PD_ASSIGN_OR_RETURN(std::string model, Source(spec.model, *blobs, data_root));
  PD_RETURN_IF_ERROR(Link(model, files.model_path_));
  for (const FileReference& file : spec.model_data) {
    PD_ASSIGN_OR_RETURN(std::string target, Target(model_folder, file.path));
    PD_ASSIGN_OR_RETURN(std::string source, Source(file, *blobs, data_root));
    PD_RETURN_IF_ERROR(Link(source, target));
  }
  for (size_t i = 0; i < spec.data_files.size(); ++i) {
    const FileReference& file = spec.data_files[i];
    std::string name = fs::path(file.path).filename().string();
    std::string target = fmt::format("{}/data/{}/{}", files.folder_, i,
                                     name.empty() || name == ".." || name == "." ? "data" : name);
    PD_ASSIGN_OR_RETURN(std::string source, Source(file, *blobs, data_root));
    PD_RETURN_IF_ERROR(Link(source, target));
    files.data_[file.path] = target;
  }
  return files;
}

absl::StatusOr<std::vector<ColumnSpec>> JobFiles::Columns(std::vector<ColumnSpec> columns) const {
  for (ColumnSpec& column : columns) {
    for (std::string* path : {&column.path, &column.vocabulary_path}) {
      if (path == &column.vocabulary_path && path->empty()) continue;
      auto it = data_.find(*path);
      if (it == data_.end())
        return InvalidArgument("column '{}': its file '{}' is not among data_files", column.name,
                               *path);
      *path = it->second;
    }
  }
  return columns;
}

JobFiles::JobFiles(JobFiles&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      model_path_(std::move(other.model_path_)),
      data_(std::move(other.data_)) {}

JobFiles::~JobFiles() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

}  // namespace pipedream
