#include "worker/service/job_file_cache.h"

#include <algorithm>
#include <filesystem>

#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/job/resolve.h"
#include "common/rpc/grpc_blobs.h"

namespace pipedream {
namespace {

namespace fs = std::filesystem;

bool IsSha256(const std::string& text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// A link to the cached blob at folder/relative, which may not leave the folder.
absl::Status LinkInto(const std::string& folder, const std::string& relative,
                      const std::string& blob) {
  const fs::path clean = fs::path(relative).lexically_normal();
  if (clean.empty() || clean.is_absolute() || *clean.begin() == "..")
    return InvalidArgument("external data path '{}' leads outside the model's folder", relative);
  const fs::path target = fs::path(folder) / clean;
  PD_RETURN_IF_ERROR(MakeDirectories(target.parent_path().string()));
  std::error_code error;
  fs::create_hard_link(blob, target, error);
  if (error && error != std::errc::file_exists)
    return Unavailable("cannot link '{}': {}", target.string(), error.message());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> JobFileCache::Fetch(const FileReference& file,
                                                const Cancelled& cancelled) {
  if (!IsSha256(file.sha256)) return InvalidArgument("file '{}' has no content hash", file.path);
  const std::string folder = work_dir_ + "/blobs";
  PD_RETURN_IF_ERROR(MakeDirectories(folder));
  std::string path = folder + "/" + file.sha256;
  if (FileSize(path).ok()) return path;  // renamed into place only after its hash was checked
  TransferOptions options;
  options.cancelled = cancelled;
  absl::Status status = DownloadBlob(*stub_, file.sha256, path, options);
  if (!status.ok()) return Annotate(status, fmt::format("fetching '{}'", file.path));
  return path;
}

absl::StatusOr<std::shared_ptr<const Model>> JobFileCache::OpenModel(const JobSpec& spec,
                                                                     const Cancelled& cancelled) {
  MutexLock lock(mutex_);
  std::string key = spec.model.sha256;
  for (const FileReference& file : spec.model_data) key += file.path + '\n' + file.sha256;
  key = Sha256Hex(key);
  if (key == model_key_ && model_ != nullptr) return model_;
  const std::string folder = work_dir_ + "/models/" + key;
  PD_RETURN_IF_ERROR(MakeDirectories(folder));
  PD_ASSIGN_OR_RETURN(std::string blob, Fetch(spec.model, cancelled));
  PD_RETURN_IF_ERROR(LinkInto(folder, "model.onnx", blob));
  for (const FileReference& file : spec.model_data) {
    PD_ASSIGN_OR_RETURN(blob, Fetch(file, cancelled));
    PD_RETURN_IF_ERROR(LinkInto(folder, file.path, blob));
  }
  PD_ASSIGN_OR_RETURN(model_, Model::Load(folder + "/model.onnx"));
  model_key_ = key;
  return model_;
}

absl::StatusOr<std::shared_ptr<const Dataset>> JobFileCache::OpenDataset(
    const JobSpec& spec, const Model& model, const std::vector<ColumnSpec>& columns,
    const std::vector<std::string>& names, const Cancelled& cancelled) {
  PD_ASSIGN_OR_RETURN(std::vector<ColumnRequirement> all, Requirements(spec, model));
  std::vector<ColumnRequirement> wanted;
  std::vector<ColumnSpec> local;
  MutexLock lock(mutex_);
  for (const std::string& name : names) {
    auto column = std::ranges::find(columns, name, &ColumnSpec::name);
    auto requirement = std::ranges::find(all, name, &ColumnRequirement::name);
    if (column == columns.end() || requirement == all.end())
      return InvalidArgument("the job's data has no column '{}'", name);
    ColumnSpec spec_here = *column;
    for (std::string* path : {&spec_here.path, &spec_here.vocabulary_path}) {
      if (path->empty()) continue;
      auto file = std::ranges::find(spec.data_files, *path, &FileReference::path);
      if (file == spec.data_files.end())
        return InvalidArgument("the job does not list data file '{}'", *path);
      PD_ASSIGN_OR_RETURN(*path, Fetch(*file, cancelled));
    }
    const bool text = column->path.ends_with(".txt") || column->path.ends_with(".txt.gz");
    if (spec_here.format == ColumnFormat::kAuto && text)
      spec_here.format = ColumnFormat::kText;  // the cached name has no ending
    wanted.push_back(*requirement);
    local.push_back(std::move(spec_here));
  }
  if (local.empty()) return std::shared_ptr<const Dataset>();
  return Dataset::Open(local, wanted);
}

}  // namespace pipedream
