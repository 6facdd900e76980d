#include "common/rpc/grpc_status.h"
#include "coordinator/codec/job_record_codec.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {

grpc::Status CoordinatorService::RegisterWorker(grpc::ServerContext*,
                                                const v1::RegisterWorkerRequest* request,
                                                v1::RegisterWorkerResponse* response) {
  auto registration = coordinator_->Register(FromProto(request->worker()));
  if (!registration.ok()) return ToGrpcStatus(registration.status());
  response->set_worker_id(registration->id);
  response->set_incarnation(registration->incarnation);
  response->set_lease_s(ToSeconds(coordinator_->options().registry.lease));
  response->set_heartbeat_s(ToSeconds(coordinator_->options().heartbeat));
  return grpc::Status::OK;
}

}  // namespace pipedream
