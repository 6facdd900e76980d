#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/codec/plan_codec.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/service/check_job.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {
namespace {

absl::StatusOr<PlanAnswer> PlanOnly(Coordinator* coordinator, grpc::ServerContext* context,
                                    const v1::PlanJobRequest& request) {
  auto spec = FromProto(request.spec());
  if (!spec.ok()) return WithReason(spec.status(), "INVALID_SPEC");
  PD_ASSIGN_OR_RETURN(CheckedJob job, CheckJob(*spec, &coordinator->blobs(),
                                               coordinator->options().launcher.data_root));
  return coordinator->Plan(std::move(job), request.measure_only(), [context] { return context->IsCancelled(); });
}

}  // namespace

grpc::Status CoordinatorService::PlanJob(grpc::ServerContext* context,
                                         const v1::PlanJobRequest* request,
                                         v1::PlanJobResponse* response) {
  auto answer = PlanOnly(coordinator_, context, *request);
  if (!answer.ok()) return ToGrpcStatus(answer.status());
  if (!request->measure_only()) *response->mutable_plan() = ToProto(answer->plan);
  for (const Profile& profile : answer->profiles) *response->add_profiles() = ToProto(profile);
  *response->mutable_topology() = ToProto(answer->topology);
  for (const std::string& warning : answer->warnings) response->add_warnings(warning);
  return grpc::Status::OK;
}

}  // namespace pipedream
