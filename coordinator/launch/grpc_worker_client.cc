#include "coordinator/launch/grpc_worker_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <map>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/codec/ledger_codec.h"
#include "common/codec/lists.h"
#include "common/codec/plan_codec.h"
#include "common/codec/schedule_codec.h"
#include "common/codec/verify_codec.h"
#include "common/rpc/grpc_channel.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/codec/job_record_codec.h"
#include "coordinator/codec/stage_report_codec.h"
#include "pipedream/v1/worker.grpc.pb.h"

namespace pipedream {
namespace {

v1::JobContext ToProto(const JobContext& job) {
  v1::JobContext m;
  m.set_job_id(job.ref.job_id);
  m.set_attempt(job.ref.attempt);
  *m.mutable_spec() = ToProto(*job.spec);
  *m.mutable_run() = ToProto(job.run);
  return m;
}

v1::StageReference ToProto(const StageRef& ref) {
  v1::StageReference m;
  m.set_job_id(ref.job_id);
  m.set_attempt(ref.attempt);
  return m;
}

// A call's context, ended by its deadline or its token.
struct Call {
  explicit Call(const CallOptions& options)
      : scope(options.cancel, [this] { context.TryCancel(); }) {
    SetTimeout(&context, options.timeout);
  }
  grpc::ClientContext context;
  CancelToken::Scope scope;
};

class GrpcWorkerClient : public WorkerClient {
 public:
  GrpcWorkerClient(std::shared_ptr<grpc::Channel> channel, const WorkerInfo& worker)
      : stub_(v1::WorkerService::NewStub(std::move(channel))),
        peer_{fmt::format("worker {}", worker.id), worker.control_address, "see the worker's log"} {
  }

  absl::StatusOr<Profile> MeasureProfile(const JobContext& job,
                                         const CallOptions& options) override {
    v1::ProfileRequest request;
    *request.mutable_job() = ToProto(job);
    v1::ProfileResponse response;
    Call call(options);
    PD_RETURN_IF_ERROR(FromGrpcStatus(stub_->Profile(&call.context, request, &response), peer_));
    return FromProto(response.profile());
  }

  absl::StatusOr<ProbeResult> ProbeLink(const ProbeRequest& probe,
                                        const CallOptions& options) override {
    v1::ProbeLinkRequest request;
    request.set_name(probe.name);
    request.set_secret(probe.secret);
    *request.mutable_peer() = ToProto(probe.peer);
    request.set_measure(probe.measure);
    request.set_transport(probe.transport);
    v1::ProbeLinkResponse response;
    Call call(options);
    PD_RETURN_IF_ERROR(FromGrpcStatus(stub_->ProbeLink(&call.context, request, &response), peer_));
    return ProbeResult{response.bandwidth_bytes_per_s(), response.latency_s(),
                       response.transport()};
  }

  absl::StatusOr<int64_t> PrepareStage(const PrepareRequest& prepare,
                                       const CallOptions& options) override {
    v1::PrepareStageRequest request;
    *request.mutable_job() = ToProto(prepare.job);
    *request.mutable_plan() = ToProto(prepare.plan);
    *request.mutable_program() = ToProto(prepare.program);
    for (const JobMember& member : prepare.members) {
      v1::StageMember* m = request.add_members();
      m->set_stage(member.stage);
      m->set_replica(member.replica);
      m->set_worker_id(member.worker.id);
      *m->mutable_address() = ToProto(member.worker.data_address);
    }
    request.set_secret(prepare.secret);
    v1::PrepareStageResponse response;
    Call call(options);
    PD_RETURN_IF_ERROR(
        FromGrpcStatus(stub_->PrepareStage(&call.context, request, &response), peer_));
    return response.memory_bytes();
  }

  absl::Status StartStage(const StageRef& ref, const CallOptions& options) override {
    v1::StartStageResponse response;
    Call call(options);
    return FromGrpcStatus(stub_->StartStage(&call.context, ToProto(ref), &response), peer_);
  }

  absl::Status AbortStage(const StageRef& ref, const std::string& cause,
                          const CallOptions& options) override {
    v1::AbortStageRequest request;
    *request.mutable_stage() = ToProto(ref);
    request.set_cause(cause);
    v1::AbortStageResponse response;
    Call call(options);
    return FromGrpcStatus(stub_->AbortStage(&call.context, request, &response), peer_);
  }

  absl::Status FetchWeights(const StageRef& ref, const std::string& path,
                            const CallOptions& options) override {
    std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "wbe"), &std::fclose);
    if (file == nullptr) return Unavailable("cannot create '{}'", path);
    Call call(options);
    auto reader = stub_->FetchWeights(&call.context, ToProto(ref));
    v1::BlobChunk chunk;
    bool written = true;
    while (written && reader->Read(&chunk))
      written = std::fwrite(chunk.data().data(), 1, chunk.data().size(), file.get()) ==
                chunk.data().size();
    if (!written || std::fflush(file.get()) != 0) {
      call.context.TryCancel();
      (void)reader->Finish();
      return ResourceExhausted("cannot write '{}'; is the disk full?", path);
    }
    return FromGrpcStatus(reader->Finish(), peer_);
  }

  absl::StatusOr<VerifyReport> VerifyRun(const VerifyOrder& order,
                                         const CallOptions& options) override {
    v1::VerifyRunRequest request;
    *request.mutable_job() = ToProto(JobContext{{order.id, 1}, order.spec, order.run});
    *request.mutable_plan() = ToProto(order.plan);
    AppendAll(order.ledger.stages, request.mutable_ledger());
    for (const JobLoss& loss : order.curve) *request.add_curve() = ToProto(loss);
    request.set_result_sha256(order.result_sha256);
    request.set_minibatches(order.minibatches);
    request.set_budget_s(order.budget_s);
    v1::VerifyReport response;
    Call call(options);
    PD_RETURN_IF_ERROR(FromGrpcStatus(stub_->VerifyRun(&call.context, request, &response), peer_));
    return FromProto(response);
  }

 private:
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  const RpcPeer peer_;
};

class GrpcWorkerClients : public WorkerClients {
 public:
  explicit GrpcWorkerClients(bool insecure) : insecure_(insecure) {}

  absl::StatusOr<std::shared_ptr<WorkerClient>> Get(const WorkerInfo& worker) override {
    MutexLock lock(mutex_);
    Entry& entry = clients_[worker.id];
    if (entry.address != worker.control_address) {
      PD_ASSIGN_OR_RETURN(auto channel,
                          OpenChannel({.address = worker.control_address, .insecure = insecure_}));
      entry = {worker.control_address,
               std::make_shared<GrpcWorkerClient>(std::move(channel), worker)};
    }
    return entry.client;
  }

 private:
  struct Entry {
    std::string address;
    std::shared_ptr<WorkerClient> client;
  };
  const bool insecure_;
  Mutex mutex_;
  std::map<std::string, Entry> clients_ PD_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<WorkerClients> MakeGrpcWorkerClients(bool insecure) {
  return std::make_unique<GrpcWorkerClients>(insecure);
}

}  // namespace pipedream
