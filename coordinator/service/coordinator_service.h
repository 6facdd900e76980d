// CoordinatorService of coordinator.proto, one file per call. Handlers decode, ask the Coordinator
// and encode; they decide nothing.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>

#include "coordinator/service/coordinator.h"
#include "pipedream/v1/coordinator.grpc.pb.h"

namespace pipedream {

// Thread-safe. Borrows the coordinator.
class CoordinatorService final : public v1::CoordinatorService::Service {
 public:
  explicit CoordinatorService(Coordinator* coordinator) : coordinator_(coordinator) {}

  grpc::Status GetVersion(grpc::ServerContext* context, const v1::GetVersionRequest* request,
                          v1::GetVersionResponse* response) override;
  grpc::Status FindBlobs(grpc::ServerContext* context, const v1::FindBlobsRequest* request,
                         v1::FindBlobsResponse* response) override;
  grpc::Status UploadBlob(grpc::ServerContext* context,
                          grpc::ServerReader<v1::UploadBlobRequest>* reader,
                          v1::UploadBlobResponse* response) override;
  grpc::Status DownloadBlob(grpc::ServerContext* context, const v1::DownloadBlobRequest* request,
                            grpc::ServerWriter<v1::BlobChunk>* writer) override;
  grpc::Status SubmitJob(grpc::ServerContext* context, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override;
  grpc::Status PlanJob(grpc::ServerContext* context, const v1::PlanJobRequest* request,
                       v1::PlanJobResponse* response) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* response) override;
  grpc::Status VerifyJob(grpc::ServerContext* context, const v1::VerifyJobRequest* request,
                         v1::VerifyReport* response) override;
  grpc::Status ListWorkers(grpc::ServerContext* context, const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* response) override;
  grpc::Status RegisterWorker(grpc::ServerContext* context,
                              const v1::RegisterWorkerRequest* request,
                              v1::RegisterWorkerResponse* response) override;
  grpc::Status Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override;

 private:
  absl::Status Upload(grpc::ServerReader<v1::UploadBlobRequest>* reader);
  absl::Status Watch(grpc::ServerContext* context, const v1::WatchJobRequest& request,
                     grpc::ServerWriter<v1::WatchJobResponse>* writer);

  Coordinator* const coordinator_;
  std::atomic<int> watchers_{0};
};

}  // namespace pipedream
