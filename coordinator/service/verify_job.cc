#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/codec/verify_codec.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {
namespace {

constexpr int64_t kMaxLedgerBytes = int64_t{64} << 20;

absl::Status CheckVerifiable(const Job& job) {
  if (!IsTerminal(job.state))
    return WithReason(FailedPrecondition("job {} is {}: a run can be verified once it has "
                                         "succeeded",
                                         job.id, ToString(job.state)),
                      "JOB_NOT_OVER");
  if (job.state != JobState::kSucceeded || !job.plan)
    return WithReason(FailedPrecondition("job {} is {}: only a run that succeeded can be verified",
                                         job.id, ToString(job.state)),
                      "JOB_NOT_SUCCEEDED");
  if (job.ledger_sha256.empty())
    return WithReason(FailedPrecondition("job {} kept no ledger; {}", job.id,
                                         job.spec.ledger ? "it ran on workers of an older version"
                                                         : "it was submitted with ledger: false"),
                      "NO_LEDGER");
  return absl::OkStatus();
}

absl::StatusOr<VerifyReport> Verify(Coordinator* coordinator, grpc::ServerContext* context,
                                    const v1::VerifyJobRequest& request) {
  if (request.minibatches() < 0)
    return InvalidArgument("minibatches: found {}, expected 0 or more", request.minibatches());
  PD_ASSIGN_OR_RETURN(Job job, coordinator->Get(request.job_id()));
  PD_RETURN_IF_ERROR(CheckVerifiable(job));
  PD_ASSIGN_OR_RETURN(std::string path, coordinator->blobs().PathOf(job.ledger_sha256));
  PD_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxLedgerBytes));
  VerifyOrder order;
  PD_ASSIGN_OR_RETURN(order.ledger, ParseLedger(text));
  order.spec = std::make_shared<const JobSpec>(std::move(job.spec));
  order.run = job.run;
  order.plan = *std::move(job.plan);
  order.curve = std::move(job.progress.curve);
  order.result_sha256 = job.result_sha256;
  order.minibatches = request.minibatches();
  return coordinator->Verify(std::move(order), [context] { return context->IsCancelled(); });
}

}  // namespace

grpc::Status CoordinatorService::VerifyJob(grpc::ServerContext* context,
                                           const v1::VerifyJobRequest* request,
                                           v1::VerifyReport* response) {
  auto report = Verify(coordinator_, context, *request);
  if (!report.ok()) return ToGrpcStatus(report.status());
  *response = ToProto(*report);
  return grpc::Status::OK;
}

}  // namespace pipedream
