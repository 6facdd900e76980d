#include "worker/service/worker_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "common/codec/plan_codec.h"
#include "common/codec/verify_codec.h"
#include "common/rpc/grpc_limits.h"
#include "common/rpc/grpc_status.h"
#include "pipedream/v1/worker.grpc.pb.h"
#include "worker/service/address_codec.h"
#include "worker/service/open_channels.h"
#include "worker/service/worker.h"

namespace pipedream {
namespace {

class WorkerServiceImpl : public v1::WorkerService::Service {
 public:
  explicit WorkerServiceImpl(Worker* worker) : worker_(*worker) {}

  grpc::Status Profile(grpc::ServerContext* context, const v1::ProfileRequest* request,
                       v1::ProfileResponse* response) override {
    auto profile = worker_.ProfileJob(request->job(), [context] { return context->IsCancelled(); });
    if (!profile.ok()) return ToGrpcStatus(profile.status());
    *response->mutable_profile() = ToProto(*profile);
    return grpc::Status::OK;
  }

  grpc::Status ProbeLink(grpc::ServerContext* context, const v1::ProbeLinkRequest* request,
                         v1::ProbeLinkResponse* response) override {
    auto aborted = [context] {
      return context->IsCancelled() ? absl::CancelledError("the caller has gone")
                                    : absl::OkStatus();
    };
    auto measured = pipedream::ProbeLink(*request, aborted, worker_.connector());
    if (!measured.ok()) return ToGrpcStatus(measured.status());
    response->set_bandwidth_bytes_per_s(measured->bandwidth_bytes_per_s);
    response->set_latency_s(measured->latency_s);
    if (auto kind = ParseTransport(request->transport()); kind.ok())
      response->set_transport(
          TransportBetween(worker_.connector()->address(), FromProto(request->peer()), *kind));
    return grpc::Status::OK;
  }

  grpc::Status PrepareStage(grpc::ServerContext* context, const v1::PrepareStageRequest* request,
                            v1::PrepareStageResponse* response) override {
    auto memory = worker_.PrepareStage(*request, [context] { return context->IsCancelled(); });
    if (!memory.ok()) return ToGrpcStatus(memory.status());
    response->set_memory_bytes(*memory);
    return grpc::Status::OK;
  }

  grpc::Status StartStage(grpc::ServerContext*, const v1::StageReference* request,
                          v1::StartStageResponse*) override {
    return ToGrpcStatus(worker_.StartStage(request->job_id(), request->attempt()));
  }

  grpc::Status AbortStage(grpc::ServerContext*, const v1::AbortStageRequest* request,
                          v1::AbortStageResponse*) override {
    return ToGrpcStatus(worker_.AbortStage(request->stage().job_id(), request->stage().attempt(),
                                           request->cause()));
  }

  grpc::Status VerifyRun(grpc::ServerContext* context, const v1::VerifyRunRequest* request,
                         v1::VerifyReport* response) override {
    auto report = worker_.Verify(*request, [context] { return context->IsCancelled(); });
    if (!report.ok()) return ToGrpcStatus(report.status());
    *response = ToProto(*report);
    return grpc::Status::OK;
  }

  grpc::Status FetchWeights(grpc::ServerContext*, const v1::StageReference* request,
                            grpc::ServerWriter<v1::BlobChunk>* writer) override {
    auto session = worker_.Session(request->job_id(), request->attempt());
    if (!session.ok()) return ToGrpcStatus(session.status());
    auto file = (*session)->Weights();
    if (!file.ok()) return ToGrpcStatus(file.status());
    v1::BlobChunk chunk;
    for (size_t begin = 0; begin < file->size(); begin += kMaxChunkBytes) {
      chunk.set_data(file->substr(begin, kMaxChunkBytes));
      if (!writer->Write(chunk)) return {grpc::StatusCode::CANCELLED, "the caller went away"};
    }
    return grpc::Status::OK;
  }

 private:
  Worker& worker_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkerService(Worker* worker) {
  return std::make_unique<WorkerServiceImpl>(worker);
}

}  // namespace pipedream
