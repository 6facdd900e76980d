#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/codec/job_record_codec.h"
#include "coordinator/service/check_job.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {
namespace {

absl::StatusOr<Coordinator::Submission> Submit(Coordinator* coordinator,
                                               const v1::SubmitJobRequest& request) {
  if (request.idempotency_key().size() > 200)
    return InvalidArgument("idempotency_key: {} characters, at most 200 are allowed",
                           request.idempotency_key().size());
  auto spec = FromProto(request.spec());
  if (!spec.ok()) return WithReason(spec.status(), "INVALID_SPEC");
  std::string hash = SpecHash(*spec);
  // A repeated submit is answered without looking at the files again.
  PD_ASSIGN_OR_RETURN(std::optional<Job> known,
                      coordinator->FindByKey(request.idempotency_key(), hash));
  if (known) return Coordinator::Submission{*std::move(known), true};
  PD_ASSIGN_OR_RETURN(CheckedJob job, CheckJob(*spec, &coordinator->blobs(),
                                               coordinator->options().launcher.data_root));
  if (request.validate_only()) {
    Coordinator::Submission checked;
    checked.job.spec = std::move(job.spec);
    checked.job.run = job.run;
    checked.job.warnings = std::move(job.warnings);
    return checked;
  }
  return coordinator->Submit(std::move(job), request.idempotency_key(), hash);
}

}  // namespace

grpc::Status CoordinatorService::SubmitJob(grpc::ServerContext*,
                                           const v1::SubmitJobRequest* request,
                                           v1::SubmitJobResponse* response) {
  auto submission = Submit(coordinator_, *request);
  if (!submission.ok()) return ToGrpcStatus(submission.status());
  *response->mutable_job() = ToProto(submission->job);
  if (request->validate_only() && !submission->existed)
    response->mutable_job()->set_state(v1::JOB_STATE_UNSPECIFIED);
  response->set_existed(submission->existed);
  return grpc::Status::OK;
}

}  // namespace pipedream
