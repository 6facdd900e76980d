#include "common/rpc/grpc_status.h"
#include "coordinator/codec/job_record_codec.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {

grpc::Status CoordinatorService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                        v1::Job* response) {
  auto job = coordinator_->Get(request->job_id());
  if (!job.ok()) return ToGrpcStatus(job.status());
  *response = ToProto(*job);
  return grpc::Status::OK;
}

}  // namespace pipedream
