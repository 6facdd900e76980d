#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "coordinator/job/effects.h"
#include "coordinator/launch/worker_client.h"
#include "coordinator/store/blob_store.h"

namespace pipedream {

// Fetches the weights of every stage, puts them into the user's model and stores that as a blob,
// and the ledger as another; returns the model's hash. Blocks for as long as the transfers take.
absl::StatusOr<std::string> CollectAndExport(const CollectResult& request, WorkerClients* clients,
                                             BlobStore* blobs, const std::string& data_root,
                                             const CallOptions& options);

}  // namespace pipedream
