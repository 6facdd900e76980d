#include "common/base/status.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/codec/job_record_codec.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {
namespace {

// Each holds a thread.
constexpr int kMaxWatchers = 200;
constexpr int kMaxEvents = 500;                               // of one message
constexpr Duration kLookUp = std::chrono::milliseconds(500);  // whether the caller is still there

}  // namespace

grpc::Status CoordinatorService::WatchJob(grpc::ServerContext* context,
                                          const v1::WatchJobRequest* request,
                                          grpc::ServerWriter<v1::WatchJobResponse>* writer) {
  absl::Status status =
      ResourceExhausted("{} watchers are connected; that is the limit", kMaxWatchers);
  if (++watchers_ <= kMaxWatchers) status = Watch(context, *request, writer);
  --watchers_;
  return ToGrpcStatus(status);
}

absl::Status CoordinatorService::Watch(grpc::ServerContext* context,
                                       const v1::WatchJobRequest& request,
                                       grpc::ServerWriter<v1::WatchJobResponse>* writer) {
  const std::string& id = request.job_id();
  int64_t after = request.after_sequence();
  int64_t seen = -1;
  while (!context->IsCancelled()) {
    JobBoard::View view = coordinator_->board().WaitAbove(id, seen, kLookUp);
    if (view.job != nullptr && view.version == seen && !view.closed) continue;
    seen = view.version;
    PD_ASSIGN_OR_RETURN(Job job, view.job != nullptr ? absl::StatusOr<Job>(*view.job)
                                                     : coordinator_->store().GetJob(id));
    int sent = 0;
    do {
      PD_ASSIGN_OR_RETURN(std::vector<JobEvent> events,
                          coordinator_->store().Events(id, after, kMaxEvents));
      v1::WatchJobResponse response;
      *response.mutable_job() = ToProto(job);
      for (const JobEvent& event : events) {
        *response.add_events() = ToProto(event);
        after = event.sequence;
      }
      sent = static_cast<int>(events.size());
      if (!writer->Write(response)) return absl::CancelledError("the caller is gone");
    } while (sent == kMaxEvents);
    if (IsTerminal(job.state)) return absl::OkStatus();
    if (view.closed)
      return WithReason(Unavailable("the coordinator is shutting down"), "SHUTTING_DOWN");
  }
  return absl::CancelledError("the caller is gone");
}

}  // namespace pipedream
