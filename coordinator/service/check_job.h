#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "common/job/job_spec.h"
#include "coordinator/service/coordinator.h"
#include "coordinator/store/blob_store.h"

namespace pipedream {

// Everything that can be known before a job runs: the spec, its files, model, data and how they
// fit. Reads the data; seconds for large sets. Thread-safe. Errors: kFailedPrecondition with reason
// BLOB_MISSING; kInvalidArgument with reason INVALID_SPEC, INVALID_MODEL, UNSUPPORTED_MODEL,
// INVALID_DATA, UNKNOWN_SCHEDULE or TOO_MANY_STAGES; and those of a machine in trouble
// (kUnavailable).
absl::StatusOr<CheckedJob> CheckJob(const JobSpec& spec, BlobStore* blobs,
                                    const std::string& data_root);

}  // namespace pipedream
