#include <algorithm>

#include "common/base/status.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/codec/job_record_codec.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {
namespace {

constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 500;

absl::StatusOr<JobPage> ListPage(Coordinator* coordinator, const v1::ListJobsRequest& request) {
  if (request.page_size() < 0)
    return InvalidArgument("page_size {} must not be negative", request.page_size());
  std::vector<JobState> states;
  for (int state : request.states()) {
    PD_ASSIGN_OR_RETURN(JobState value, FromProto(static_cast<v1::JobState>(state)));
    states.push_back(value);
  }
  int size = request.page_size() == 0 ? kDefaultPage : std::min(request.page_size(), kMaxPage);
  return coordinator->store().ListJobs(states, size, request.page_token());
}

}  // namespace

grpc::Status CoordinatorService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                                          v1::ListJobsResponse* response) {
  auto page = ListPage(coordinator_, *request);
  if (!page.ok()) return ToGrpcStatus(page.status());
  for (const Job& stored : page->jobs) {
    // The board's progress is fresher.
    JobBoard::View view = coordinator_->board().Get(stored.id);
    v1::Job* job = response->add_jobs();
    *job = ToProto(view.job != nullptr ? *view.job : stored);
    job->mutable_progress()->clear_curve();
    job->mutable_spec()->clear_schedule_table();  // of up to a megabyte each
  }
  response->set_next_page_token(page->next_token);
  return grpc::Status::OK;
}

}  // namespace pipedream
