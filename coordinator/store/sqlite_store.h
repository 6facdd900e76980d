#pragma once

#include <memory>
#include <string>

#include "coordinator/store/job_store.h"

namespace pipedream {

// JobStore in one SQLite file: write-ahead log, every commit synced to disk (about 4 ms).
// Thread-safe by one lock. Open: kFailedPrecondition for a file of a newer version, kUnavailable
// otherwise, both naming the path.
absl::StatusOr<std::unique_ptr<JobStore>> OpenSqliteStore(const std::string& path);

}  // namespace pipedream
