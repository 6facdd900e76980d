#pragma once

#include <memory>

#include "coordinator/launch/worker_client.h"

namespace pipedream {

// Over gRPC, one channel per worker. `insecure`: workers beyond loopback may be called in plain
// text.
std::unique_ptr<WorkerClients> MakeGrpcWorkerClients(bool insecure);

}  // namespace pipedream
