// A job's files on the submitting machine: checked early, hashed, and put where the coordinator
// finds them.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "client/connection.h"
#include "client/job_options.h"
#include "client/terminal.h"
#include "common/rpc/grpc_blobs.h"

namespace pipedream {

struct PreparedJob {
  JobSpec spec;                       // resolved; every file with hash and size
  std::vector<BlobInfo> blobs;        // what the coordinator must have
  std::vector<std::string> warnings;  // of the model's import
};

// Loads the model, resolves what the job leaves open, applies column options and hashes all files.
// Nothing is sent. Files "shared:..." lie on the daemons' side and are left alone; a model must be
// here. kInvalidArgument (also for files that are missing or cannot be read, with their path).
absl::StatusOr<PreparedJob> PrepareJob(JobSpec spec, const JobOptions& options);

// Uploads what the coordinator lacks; progress on the terminal.
absl::Status UploadBlobs(const Connection& connection, const std::vector<BlobInfo>& blobs,
                         const Terminal& terminal);

}  // namespace pipedream
