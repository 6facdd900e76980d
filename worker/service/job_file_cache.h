// The files of a job on this worker: fetched from the coordinator by content, cached, and laid out
// as the model's importer and the dataset readers expect them.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/data/dataset.h"
#include "common/graph/model.h"
#include "common/job/job_spec.h"
#include "pipedream/v1/coordinator.grpc.pb.h"

namespace pipedream {

// Thread-safe. Cached files stay until the worker's folder is removed.
class JobFileCache {
 public:
  // `work_dir` exists. The stub outlives this.
  JobFileCache(std::string work_dir, v1::CoordinatorService::StubInterface* stub)
      : work_dir_(std::move(work_dir)), stub_(stub) {}

  // Asked while files are fetched; true ends that with kCancelled.
  using Cancelled = std::function<bool()>;

  // The job's model with its external data; the last one is kept, since profile and stage of a job
  // read it one after the other. kInvalidArgument: no content hash, or external data that would lie
  // outside the model's folder.
  absl::StatusOr<std::shared_ptr<const Model>> OpenModel(const JobSpec& spec,
                                                         const Cancelled& cancelled);
  // The named columns among `columns`; fetches only their files. Null for no names.
  absl::StatusOr<std::shared_ptr<const Dataset>> OpenDataset(const JobSpec& spec,
                                                             const Model& model,
                                                             const std::vector<ColumnSpec>& columns,
                                                             const std::vector<std::string>& names,
                                                             const Cancelled& cancelled);

 private:
  // Local path of the blob, fetched if it is not there yet.
  absl::StatusOr<std::string> Fetch(const FileReference& file, const Cancelled& cancelled)
      PD_REQUIRES(mutex_);

  const std::string work_dir_;
  v1::CoordinatorService::StubInterface* const stub_;
  Mutex mutex_;
  std::string model_key_ PD_GUARDED_BY(mutex_);
  std::shared_ptr<const Model> model_ PD_GUARDED_BY(mutex_);
};

}  // namespace pipedream
