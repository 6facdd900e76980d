#include <optional>

#include "common/rpc/grpc_status.h"
#include "coordinator/codec/job_record_codec.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {

grpc::Status CoordinatorService::Heartbeat(grpc::ServerContext*,
                                           const v1::HeartbeatRequest* request,
                                           v1::HeartbeatResponse* response) {
  std::optional<StageReported> report;
  if (request->has_stage()) {
    auto decoded = FromProto(request->worker_id(), request->stage());
    if (!decoded.ok()) return ToGrpcStatus(decoded.status());
    report = *std::move(decoded);
  }
  auto drop =
      coordinator_->Heartbeat(request->worker_id(), request->incarnation(), std::move(report));
  if (!drop.ok()) return ToGrpcStatus(drop.status());
  response->set_drop_stage(*drop);
  return grpc::Status::OK;
}

}  // namespace pipedream
