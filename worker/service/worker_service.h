#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace pipedream {

class Worker;

// WorkerService on behalf of `worker`, which outlives it.
std::unique_ptr<grpc::Service> MakeWorkerService(Worker* worker);

}  // namespace pipedream
