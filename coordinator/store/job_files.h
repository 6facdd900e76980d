// A job's files as its spec names them, made of blobs.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "common/job/job_spec.h"
#include "coordinator/store/blob_store.h"

namespace pipedream {

// A temporary folder of hard links to blobs; removed with the object. The model's external data
// lies beside the model under the relative paths that it uses; data files keep the ends of their
// names.
class JobFiles {
 public:
  // Files "shared:PATH" come from below `data_root` (empty: refused). kFailedPrecondition (reason
  // BLOB_MISSING) lists every file that must be uploaded first; kInvalidArgument: a path that would
  // leave the folder or is there twice.
  static absl::StatusOr<JobFiles> Open(const JobSpec& spec, BlobStore* blobs,
                                       const std::string& data_root);
  JobFiles(JobFiles&& other) noexcept;
  JobFiles& operator=(JobFiles&&) = delete;
  ~JobFiles();

  const std::string& folder() const { return folder_; }
  const std::string& model_path() const { return model_path_; }
  // The columns with paths that can be opened while this lives. kInvalidArgument: a file that
  // data_files lacks.
  absl::StatusOr<std::vector<ColumnSpec>> Columns(std::vector<ColumnSpec> columns) const;

 private:
  JobFiles() = default;
  std::string folder_;
  std::string model_path_;
  std::map<std::string, std::string> data_;  // path in the spec -> link
};

}  // namespace pipedream
