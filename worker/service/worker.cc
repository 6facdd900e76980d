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
#include "worker/service/measure_alone.h"
#include "worker/service/verify_on_worker.h"
#include "worker/service/worker_service.h"

namespace pipedream {
namespace {

constexpr Duration kStopLimit = std::chrono::seconds(20);            // then a stage is stuck
constexpr Duration kAbortPatience = std::chrono::seconds(4);         // of one AbortStage call
constexpr Duration kLeasePatience = std::chrono::milliseconds(200);  // heartbeats must go on
constexpr Duration kShutdownPatience = std::chrono::seconds(3);
constexpr Duration kDevicePatience = std::chrono::seconds(30);
constexpr Duration kStatusPollPeriod = std::chrono::milliseconds(50);
constexpr Duration kHeartbeatTimeout = std::chrono::seconds(2);
constexpr Duration kRegisterTimeout = std::chrono::seconds(5);

}  // namespace

// Profiling and preparing have the device to themselves.
class Worker::DeviceUse {
 public:
  explicit DeviceUse(Worker* worker) : worker_(*worker) {}
  ~DeviceUse() {
    if (!held_) return;
    MutexLock lock(worker_.mutex_);
    worker_.busy_ = false;
    worker_.available_.NotifyAll();
  }
  // The coordinator gives a worker one job at a time: whoever still has the device was cancelled
  // and will soon be through.
  absl::Status Acquire(const Cancelled& cancelled) {
    const Duration deadline = SystemClock()->Now() + kDevicePatience;
    while (!held_) {
      if (cancelled()) return absl::CancelledError("the caller has gone");
      MutexLock lock(worker_.mutex_);
      if (worker_.stopping_) return Unavailable("worker {} is shutting down", worker_.id_);
      if (worker_.busy_) {
        if (SystemClock()->Now() > deadline)
          return FailedPrecondition("worker {} is busy with another job", worker_.id_);
        worker_.available_.WaitFor(worker_.mutex_, kStatusPollPeriod);
      } else {
        worker_.busy_ = held_ = true;
      }
    }
    return absl::OkStatus();
  }

 private:
  Worker& worker_;
  bool held_ = false;
};

Worker::Worker(const WorkerOptions& options) : options_(options), speed_known_(options.speed > 0) {
  MutexLock lock(mutex_);
  id_ = options.id;
  speed_ = options.speed;
}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options) {
  std::unique_ptr<Worker> worker(new Worker(options));
  PD_RETURN_IF_ERROR(worker->Init());
  return worker;
}

absl::Status Worker::Init() {
  PD_ASSIGN_OR_RETURN(HostPort listen, ParseAddress(options_.listen));
  advertised_host_ = options_.advertise.empty() ? listen.host : options_.advertise;
  if (advertised_host_ == "0.0.0.0" || advertised_host_ == "::")
    return InvalidArgument(
        "nobody can call this worker at {}; pass --advertise with the host name or address under "
        "which the coordinator and the other workers reach it",
        advertised_host_);
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
  files_ = std::make_unique<JobFileCache>(options_.work_dir, coordinator_.get());

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
    if (call_ != nullptr) call_->TryCancel();
    wake_.NotifyAll();
    available_.NotifyAll();
  }
  if (lease_.joinable()) lease_.join();
  if (!DropHeld("the worker shuts down", kShutdownPatience)) {
    LogError("the stage does not stop; leaving without it");
    _exit(kStuckExitCode);
  }
  if (server_ != nullptr) server_->Shutdown(std::chrono::milliseconds(200));
}

bool Worker::stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

std::shared_ptr<StageSession> Worker::held() const {
  MutexLock lock(mutex_);
  return session_;
}

void Worker::RunLease() {
  while (!stopping()) {
    if (registered_) Heartbeat();
    // The coordinator takes whoever registers for idle.
    else if (DropHeld("the worker's lease ran out", kLeasePatience) && KnowSpeed())
      Register();
    server_->SetReady(registered_);
    if (ToSeconds(SystemClock()->Now() - last_contact_) > options_.orphan_timeout_s)
      DropHeld("the coordinator does not answer", kLeasePatience);
    MutexLock lock(mutex_);
    if (!stopping_) wake_.WaitFor(mutex_, heartbeat_period_);
  }
}

absl::Status Worker::Call(Duration timeout,
                          const std::function<grpc::Status(grpc::ClientContext*)>& call,
                          const RpcPeer& peer) {
  grpc::ClientContext context;
  SetTimeout(&context, timeout);
  {
    MutexLock lock(mutex_);
    if (stopping_) return absl::CancelledError("the worker shuts down");
    call_ = &context;
  }
  const grpc::Status status = call(&context);
  MutexLock lock(mutex_);
  call_ = nullptr;
  return FromGrpcStatus(status, peer);
}

bool Worker::KnowSpeed() {
  if (speed_known_) return true;
  speed_known_ = true;
  backend_->SetThreads(options_.threads);
  SpeedOptions options;
  options.threads = options_.threads;
  options.slowdown = options_.slowdown;
  options.cancelled = [this] { return stopping(); };
  const absl::StatusOr<double> speed = MeasureSpeedAlone(*backend_, device_.get(), options);
  if (stopping()) return false;
  if (!speed.ok()) {
    LogWarning("the worker's speed is not known: {}", speed.status().ToString());
    return true;
  }
  LogInfo("computes {:.1f} GFLOP/s", *speed / 1e9);
  MutexLock lock(mutex_);
  speed_ = *speed;
  return true;
}

void Worker::Register() {
  v1::RegisterWorkerRequest request;
  v1::Worker& worker = *request.mutable_worker();
  {
    MutexLock lock(mutex_);
    worker.set_id(id_);
    worker.set_speed(speed_);
  }
  worker.set_device_kind(device_->kind());
  worker.set_memory_bytes(device_->limit_bytes());
  worker.set_version(std::string(kVersion));
  worker.set_control_address(FormatAddress({advertised_host_, server_->port()}));
  *worker.mutable_data_address() = ToProto(connector_->address());
  worker.mutable_data_address()->set_host(advertised_host_);
  v1::RegisterWorkerResponse response;
  absl::Status status = Call(kRegisterTimeout,
                             [&](grpc::ClientContext* context) {
                               return coordinator_->RegisterWorker(context, request, &response);
                             },
                             {"the coordinator", options_.coordinator, "Is it running?"});
  if (!status.ok()) {
    // It is not there yet, or again; anything else will not get better by waiting.
    if (absl::IsUnavailable(status) || stopping())
      LogDebug("not registered: {}", status.ToString());
    else
      LogWarning("not registered: {}", status.ToString());
    return;
  }
  LogInfo("registered with {} as {} ({})", options_.coordinator, response.worker_id(),
          device_->kind());
  registered_ = true;
  incarnation_ = response.incarnation();
  if (response.heartbeat_s() > 0) heartbeat_period_ = FromSeconds(response.heartbeat_s());
  last_contact_ = SystemClock()->Now();
  MutexLock lock(mutex_);
  id_ = response.worker_id();
}

void Worker::Heartbeat() {
  v1::HeartbeatRequest request;
  const std::shared_ptr<StageSession> session = held();
  {
    MutexLock lock(mutex_);
    request.set_worker_id(id_);
  }
  request.set_incarnation(incarnation_);
  v1::StageReport report;
  const bool reports = session != nullptr && session->Report(&report);
  if (reports) *request.mutable_stage() = std::move(report);
  v1::HeartbeatResponse response;
  absl::Status status = Call(kHeartbeatTimeout,
                             [&](grpc::ClientContext* context) {
                               return coordinator_->Heartbeat(context, request, &response);
                             },
                             {"the coordinator", options_.coordinator, "Is it running?"});
  if (absl::IsNotFound(status)) {
    LogWarning("the lease is gone; registering anew");
    registered_ = false;
    last_contact_ = SystemClock()->Now();
    DropHeld("the worker's lease ran out", kLeasePatience);
    return;
  }
  if (!status.ok()) {
    LogDebug("heartbeat: {}", status.ToString());
    return;
  }
  last_contact_ = SystemClock()->Now();
  if (!reports) return;
  session->Acknowledge();
  if (response.drop_stage()) Drop(session, "the attempt is over", kLeasePatience).IgnoreError();
}

absl::Status Worker::Drop(const std::shared_ptr<StageSession>& session, const std::string& cause,
                          Duration patience) {
  session->Abort(absl::CancelledError(cause));
  if (!session->WaitStopped(patience)) {
    if (session->IsStuck(kStopLimit)) {
      LogError("the stage of job {} did not stop; leaving, so that a new process can take over",
               session->job_id());
      _exit(kStuckExitCode);
    }
    return Unavailable("the stage of job {} has not stopped yet", session->job_id());
  }
  session->Release();
  MutexLock lock(mutex_);
  if (session_ == session) session_ = nullptr;
  return absl::OkStatus();
}

bool Worker::DropHeld(const std::string& cause, Duration patience) {
  const std::shared_ptr<StageSession> session = held();
  return session == nullptr || Drop(session, cause, patience).ok();
}

absl::StatusOr<Profile> Worker::ProfileJob(const v1::JobContext& job, const Cancelled& cancelled) {
  PD_ASSIGN_OR_RETURN(JobSpec spec, FromProto(job.spec()));
  PD_ASSIGN_OR_RETURN(RunShape run, FromProto(job.run()));
  DeviceUse device(this);
  PD_RETURN_IF_ERROR(device.Acquire(cancelled));
  if (const std::shared_ptr<StageSession> session = held(); session != nullptr)
    return FailedPrecondition("the worker holds a stage of job {}", session->job_id());
  auto over = [&] { return cancelled() || stopping(); };
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, files_->OpenModel(spec, over));
  backend_->SetThreads(options_.threads);
  ProfilerOptions options;
  options.cancelled = over;
  options.slowdown = options_.slowdown;
  PD_ASSIGN_OR_RETURN(Profile profile,
                      ProfileModel(model, spec, run, *backend_, device_.get(), options));
  MutexLock lock(mutex_);
  profile.device_speed = speed_;
  return profile;
}

absl::StatusOr<VerifyReport> Worker::Verify(const v1::VerifyRunRequest& request,
                                            const Cancelled& cancelled) {
  DeviceUse device(this);
  PD_RETURN_IF_ERROR(device.Acquire(cancelled));
  if (const std::shared_ptr<StageSession> session = held(); session != nullptr)
    return FailedPrecondition("the worker holds a stage of job {}", session->job_id());
  return VerifyOnWorker(request, files_.get(), device_.get(), options_.work_dir,
                        [&] { return cancelled() || stopping(); });
}

absl::StatusOr<std::shared_ptr<StageSession>> Worker::NewSession(
    const v1::PrepareStageRequest& request) {
  const std::string& job_id = request.job().job_id();
  const int64_t attempt = request.job().attempt();
  if (const std::shared_ptr<StageSession> old = held(); old != nullptr) {
    const bool same_job = old->job_id() == job_id;
    if (same_job && old->attempt() > attempt)
      return Aborted("attempt {} of job {} is over", attempt, job_id);
    if (!same_job || old->attempt() == attempt)
      return FailedPrecondition("the worker holds a stage of job {}", old->job_id());
    PD_RETURN_IF_ERROR(Drop(old, "a newer attempt begins", kAbortPatience));
  }
  SessionResources resources{files_.get(),     device_.get(),    connector_.get(),
                             backend_.get(),   options_.threads, "",
                             options_.slowdown};
  MutexLock lock(mutex_);
  if (stopping_) return Unavailable("worker {} is shutting down", id_);
  resources.worker_id = id_;
  session_ = std::make_shared<StageSession>(resources, request);
  return session_;
}

absl::StatusOr<int64_t> Worker::PrepareStage(const v1::PrepareStageRequest& request,
                                             const Cancelled& cancelled) {
  DeviceUse device(this);
  PD_RETURN_IF_ERROR(device.Acquire(cancelled));
  PD_ASSIGN_OR_RETURN(std::shared_ptr<StageSession> session, NewSession(request));
  backend_->SetThreads(options_.threads);
  absl::Status prepared = session->Prepare();
  if (prepared.ok()) return session->memory_bytes();
  Drop(session, "the stage could not be prepared", kAbortPatience).IgnoreError();
  return prepared;
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
  absl::StatusOr<std::shared_ptr<StageSession>> session = Session(job_id, attempt);
  if (absl::IsNotFound(session.status())) return absl::OkStatus();
  PD_RETURN_IF_ERROR(session.status());
  return Drop(*session, cause, kAbortPatience);
}

}  // namespace pipedream
