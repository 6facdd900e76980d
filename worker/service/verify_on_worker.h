#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "common/job/verify_report.h"
#include "pipedream/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/service/job_file_cache.h"

namespace pipedream {

// Fetches the job's files and verifies the run (VerifyRun) with all stages in the memory of
// `device`, which nobody else uses meanwhile. Errors: as VerifyRun, and those of the files and of a
// request that does not decode.
absl::StatusOr<VerifyReport> VerifyOnWorker(const v1::VerifyRunRequest& request,
                                            JobFileCache* files, Device* device,
                                            const std::string& work_folder,
                                            const JobFileCache::Cancelled& cancelled);

}  // namespace pipedream
