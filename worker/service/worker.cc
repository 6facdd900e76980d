#include "worker/service/worker.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/codec/job_codec.h"
#include "common/rpc/address.h"
#include "common/rpc/grpc_channel.h"
#include "common/rpc/grpc_status.h"
#include "worker/engine/profiler.h"
#include "worker/service/address_codec.h"
#include "worker/service/worker_service.h"

namespace pipedream {
namespace {

constexpr Duration kAbortLimit = std::chrono::seconds(20);
constexpr Duration kHeartbeatTimeout = std::chrono::seconds(2);
constexpr Duration kRegisterTimeout = std::chrono::seconds(5);

}  // namespace

Worker::Worker(const WorkerOptions& options) : options_(options) {
  MutexLock lock(mutex_);
  id_ = options.id;
}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options) {
  std::unique_ptr<Worker> worker(new Worker(options));
  PD_RETURN_IF_ERROR(worker->Init());
  return worker;
}

absl::Status Worker::Init() {
  PD_ASSIGN_OR_RETURN(HostPort listen, ParseAddress(options_.listen));
  PD_RETURN_IF_ERROR(MakeDirectories(options_.work_dir));
  device_ = MakeCpuDevice(options_.threads, options_.memory_bytes);
  backend_ = MakeOneDnnBackend();
  ConnectorOptions data;
  data.bind_host = listen.host;
  data.offer_shm = options_.offer_shm;
  data.pacing_bytes_per_s = options_.pacing_bytes_per_s;
  PD_ASSIGN_OR_RETURN(connector_, Connector::Create(data));

  RpcChannelOptions channel;
  channel.address = options_.coordinator;
  channel.insecure = options_.insecure;
  PD_ASSIGN_OR_RETURN(auto opened, OpenChannel(channel));
  coordinator_ = v1::CoordinatorService::NewStub(std::move(opened));
  files_ = std::make_unique<JobFiles>(options_.work_dir, coordinator_.get());

  service_ = MakeWorkerService(this);
  RpcServerOptions server;
  server.address = options_.listen;
  server.insecure = options_.insecure;
  PD_ASSIGN_OR_RETURN(server_, RpcServer::Start(server, {service_.get()}));
  last_contact_ = SystemClock()->Now();
  lease_ = std::thread([this] { RunLease(); });
  return absl::OkStatus();
}

Worker::~Worker() {
  Shutdown();
  server_.reset();  // no handler runs any more
}

const std::string& Worker::control_address() const { return server_->address(); }

void Worker::Shutdown() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (lease_.joinable()) lease_.join();
  DropSession("the worker shuts down");
  if (server_ != nullptr) server_->Shutdown(std::chrono::milliseconds(200));
}

void Worker::RunLease() {
  while (true) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
    }
    if (registered_)
      Heartbeat();
    else
      registered_ = Register();
    server_->SetReady(registered_);
    if (ToSeconds(SystemClock()->Now() - last_contact_) > options_.orphan_timeout_s)
      DropSession("the coordinator does not answer");
    MutexLock lock(mutex_);
    if (!stopping_) wake_.WaitFor(mutex_, heartbeat_period_);
  }
}

bool Worker::Register() {
  v1::RegisterWorkerRequest request;
  v1::Worker& worker = *request.mutable_worker();
  {
    MutexLock lock(mutex_);
    worker.set_id(id_);
  }
  worker.set_device_kind(device_->kind());
  worker.set_memory_bytes(device_->limit_bytes());
  worker.set_version(std::string(kVersion));
  worker.set_control_address(server_->address());
  *worker.mutable_data_address() = ToProto(connector_->address());
  v1::RegisterWorkerResponse response;
  grpc::ClientContext context;
  SetTimeout(&context, kRegisterTimeout);
  absl::Status status = FromGrpcStatus(coordinator_->RegisterWorker(&context, request, &response),
                                       {"the coordinator", options_.coordinator, "Is it running?"});
  if (!status.ok()) {
    LogDebug("not registered: {}", status.ToString());
    return false;
  }
  LogInfo("registered with {} as {} ({})", options_.coordinator, response.worker_id(),
          device_->kind());
  incarnation_ = response.incarnation();
  if (response.heartbeat_s() > 0) heartbeat_period_ = FromSeconds(response.heartbeat_s());
  last_contact_ = SystemClock()->Now();
  MutexLock lock(mutex_);
  id_ = response.worker_id();
  return true;
}

void Worker::Heartbeat() {
  v1::HeartbeatRequest request;
  std::shared_ptr<StageSession> session;
  {
    MutexLock lock(mutex_);
    request.set_worker_id(id_);
    session = session_;
  }
  request.set_incarnation(incarnation_);
  if (session != nullptr) *request.mutable_stage() = session->Report();
  v1::HeartbeatResponse response;
  grpc::ClientContext context;
  SetTimeout(&context, kHeartbeatTimeout);
  absl::Status status = FromGrpcStatus(coordinator_->Heartbeat(&context, request, &response));
  if (absl::IsNotFound(status)) {
    LogWarning("the lease is gone; registering anew");
    DropSession("the worker's lease ran out");
    registered_ = false;
    return;
  }
  if (!status.ok()) {
    LogDebug("heartbeat: {}", status.ToString());
    return;
  }
  last_contact_ = SystemClock()->Now();
  if (session == nullptr) return;
  session->Acknowledge();
  if (!response.drop_stage()) return;
  bool current;
  {
    MutexLock lock(mutex_);
    current = session_ == session;
  }
  session.reset();
  if (current) DropSession("the attempt is over");
}

void Worker::DropSession(const std::string& cause) {
  std::shared_ptr<StageSession> session;
  {
    MutexLock lock(mutex_);
    session = std::move(session_);
    session_ = nullptr;
  }
  if (session == nullptr) return;
  session->Abort(absl::CancelledError(cause));
  if (session->WaitStopped(kAbortLimit)) return;
  LogError("the stage of job {} did not stop; leaving, so that a new process can take over",
           session->job_id());
  _exit(kStuckExitCode);
}

absl::StatusOr<Profile> Worker::ProfileJob(const v1::JobContext& job,
                                           std::function<bool()> cancelled) {
  PD_ASSIGN_OR_RETURN(JobSpec spec, FromProto(job.spec()));
  PD_ASSIGN_OR_RETURN(RunShape run, FromProto(job.run()));
  {
    MutexLock lock(mutex_);
    if (busy_ || session_ != nullptr)
      return FailedPrecondition("worker {} is busy with another job", id_);
    busy_ = true;
  }
  auto profile = [&]() -> absl::StatusOr<Profile> {
    PD_ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, files_->OpenModel(spec));
    backend_->SetThreads(options_.threads);
    ProfilerOptions options;
    options.cancelled = std::move(cancelled);
    return ProfileModel(model, spec, run, *backend_, device_.get(), options);
  }();
  MutexLock lock(mutex_);
  busy_ = false;
  return profile;
}

absl::StatusOr<int64_t> Worker::PrepareStage(const v1::PrepareStageRequest& request) {
  std::shared_ptr<StageSession> old;
  SessionResources resources{files_.get(),   device_.get(),    connector_.get(),
                             backend_.get(), options_.threads, ""};
  {
    MutexLock lock(mutex_);
    if (busy_) return FailedPrecondition("worker {} is busy", id_);
    if (session_ != nullptr) {
      const bool same_job = session_->job_id() == request.job().job_id();
      if (same_job && session_->attempt() > request.job().attempt())
        return Aborted("attempt {} of job {} is over", request.job().attempt(), session_->job_id());
      if (!same_job || session_->attempt() == request.job().attempt())
        return FailedPrecondition("worker {} holds a stage of job {}", id_, session_->job_id());
    }
    busy_ = true;
    resources.worker_id = id_;
  }
  DropSession("a newer attempt begins");
  auto session =
      std::make_shared<StageSession>(resources, request.job().job_id(), request.job().attempt());
  backend_->SetThreads(options_.threads);
  absl::Status prepared = session->Prepare(request);
  MutexLock lock(mutex_);
  busy_ = false;
  if (!prepared.ok()) return prepared;
  session_ = session;
  return session->memory_bytes();
}

absl::StatusOr<std::shared_ptr<StageSession>> Worker::Session(const std::string& job_id,
                                                              int64_t attempt) {
  MutexLock lock(mutex_);
  if (session_ == nullptr || session_->job_id() != job_id)
    return NotFound("worker {} holds no stage of job {}", id_, job_id);
  if (session_->attempt() != attempt)
    return Aborted("worker {} holds attempt {} of job {}, not {}", id_, session_->attempt(), job_id,
                   attempt);
  return session_;
}

absl::Status Worker::StartStage(const std::string& job_id, int64_t attempt) {
  PD_ASSIGN_OR_RETURN(std::shared_ptr<StageSession> session, Session(job_id, attempt));
  return session->Start();
}

absl::Status Worker::AbortStage(const std::string& job_id, int64_t attempt,
                                const std::string& cause) {
  {
    absl::StatusOr<std::shared_ptr<StageSession>> session = Session(job_id, attempt);
    if (absl::IsNotFound(session.status())) return absl::OkStatus();
    if (!session.ok()) return session.status();
  }
  DropSession(cause);
  return absl::OkStatus();
}

}  // namespace pipedream
