#include <fmt/format.h>
#include <onnx/onnx_pb.h>
#include <stdlib.h>

#include <filesystem>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/graph/safetensors.h"
#include "common/rpc/grpc_channel.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/store/sqlite_store.h"
#include "tests/coordinator/service/service_fixture.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

class FakeWorker : public WorkerClient {
 public:
  FakeWorker(FakeWorkers* all, std::string id) : all_(all), id_(std::move(id)) {}
  absl::StatusOr<Profile> MeasureProfile(const JobContext& job, const CallOptions&) override {
    all_->Note("profile " + id_);
    Profile profile;
    profile.device_kind = "cpu";
    profile.microbatch_size = job.run.microbatch_size();
    profile.step_s = 0.5;
    return profile;
  }
  absl::StatusOr<ProbeResult> ProbeLink(const ProbeRequest& request, const CallOptions&) override {
    if (request.secret.size() != 32)
      return Internal("a secret of {} digits", request.secret.size());
    return ProbeResult{1e9, 1e-6, "shm"};
  }
  absl::StatusOr<int64_t> PrepareStage(const PrepareRequest& request, const CallOptions&) override {
    for (const JobMember& member : request.members)
      if (member.worker.id == id_) stage_ = member.stage;
    all_->Note("prepare " + id_);
    return 1000;
  }
  absl::Status StartStage(const StageRef&, const CallOptions&) override {
    all_->Note("start " + id_);
    return absl::OkStatus();
  }
  absl::Status AbortStage(const StageRef&, const std::string&, const CallOptions&) override {
    all_->Note("abort " + id_);
    return absl::OkStatus();
  }
  absl::Status FetchWeights(const StageRef&, const std::string& path, const CallOptions&) override {
    int64_t columns = id_ == "w1" ? 5 : 3, rows = id_ == "w1" ? 4 : 5;
    Tensor ones = Tensor::FromVector({rows, columns}, std::vector<float>(rows * columns, 1.0f));
    return WriteSafetensors(path, {{id_ == "w1" ? "w0" : "w1", ones}});
  }
  absl::StatusOr<VerifyReport> VerifyRun(const VerifyOrder& order, const CallOptions&) override {
    all_->Note("verify " + id_);
    VerifyReport report{.schedule = order.spec->schedule,
                        .declared = "stash",
                        .followed = {},
                        .minibatches = std::ssize(order.curve),
                        .replayed = order.minibatches,
                        .checks = {}};
    for (const StageLedger& stage : order.ledger.stages)
      report.checks.push_back(
          {fmt::format("stage {}", stage.stage), VerifyOutcome::kPassed, order.result_sha256});
    return report;
  }

 private:
  FakeWorkers* const all_;
  const std::string id_;
  int stage_ = 0;
};

// One stage per worker.
absl::StatusOr<PlannedRun> PlanOneStageEach(const ComputePlan& request) {
  PlannedRun run;
  run.plan.schedule = request.job.spec->schedule;
  run.plan.rule = "test";
  run.plan.step_s = 0.25;
  int node = 0;
  for (const DeviceInfo& device : request.topology.devices) {
    PlanStage stage;
    stage.workers = {device.worker_id};
    stage.nodes = {node++};
    run.plan.stages.push_back(stage);
  }
  run.programs = std::make_shared<const std::vector<StageProgram>>(run.plan.stages.size());
  return run;
}

void AddWeights(onnx::GraphProto* graph, const std::string& name, int64_t rows, int64_t columns) {
  onnx::TensorProto* tensor = graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->add_dims(rows);
  tensor->add_dims(columns);
  for (int64_t i = 0; i < rows * columns; ++i) tensor->add_float_data(0.01f * i);
}

void AddNode(onnx::GraphProto* graph, const std::string& op, std::vector<std::string> inputs,
             const std::string& output) {
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type(op);
  node->set_name(op + "_" + output);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
}

void SetValue(onnx::ValueInfoProto* value, const std::string& name, int64_t features) {
  value->set_name(name);
  auto* type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_param("N");
  type->mutable_shape()->add_dim()->set_dim_value(features);
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

absl::StatusOr<std::shared_ptr<WorkerClient>> FakeWorkers::Get(const WorkerInfo& worker) {
  return std::make_shared<FakeWorker>(this, worker.id);
}
void FakeWorkers::Note(const std::string& line) {
  MutexLock lock(mutex_);
  notes_.push_back(line);
}
std::vector<std::string> FakeWorkers::notes() {
  MutexLock lock(mutex_);
  return notes_;
}

void ServiceTest::SetUp() {
  folder_ = testing::TempDir() + "/service-XXXXXX";
  ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  options_.tick = std::chrono::milliseconds(5);
  options_.launcher.plan = PlanOneStageEach;
  StartCoordinator();
}

void ServiceTest::TearDown() {
  StopCoordinator();
  std::filesystem::remove_all(folder_);
}

void ServiceTest::StartCoordinator() {
  CoordinatorParts parts;
  parts.clock = &clock_;
  ASSERT_OK_AND_ASSIGN(parts.store, OpenSqliteStore(folder_ + "/jobs.sqlite"));
  ASSERT_OK_AND_ASSIGN(parts.blobs, BlobStore::Open(folder_ + "/blobs", {.keep_free_bytes = 0}));
  auto workers = std::make_unique<FakeWorkers>();
  workers_ = workers.get();
  parts.clients = std::move(workers);
  ASSERT_OK_AND_ASSIGN(coordinator_, Coordinator::Start(options_, std::move(parts)));
  service_ = std::make_unique<CoordinatorService>(coordinator_.get());
  ASSERT_OK_AND_ASSIGN(server_, RpcServer::Start({}, {service_.get()}));
  ASSERT_OK_AND_ASSIGN(auto channel, OpenChannel({.address = server_->address()}));
  stub_ = v1::CoordinatorService::NewStub(channel);
}

void ServiceTest::StopCoordinator() {
  stub_.reset();
  if (coordinator_ != nullptr) coordinator_->Shutdown(std::chrono::seconds(1));
  server_.reset();
  service_.reset();
  coordinator_.reset();
}

v1::FileReference ServiceTest::Upload(const std::string& path, const std::string& content) {
  v1::FileReference file;
  file.set_path(path);
  file.set_sha256(Sha256Hex(content));
  file.set_bytes(static_cast<int64_t>(content.size()));
  grpc::ClientContext context;
  v1::UploadBlobResponse response;
  auto writer = stub_->UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  request.mutable_header()->set_sha256(file.sha256());
  request.mutable_header()->set_bytes(file.bytes());
  writer->Write(request);
  request.set_data(content);
  writer->Write(request);
  writer->WritesDone();
  EXPECT_OK(FromGrpcStatus(writer->Finish()));
  return file;
}

std::string ServiceTest::WriteModel() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name("mlp");
  SetValue(graph->add_input(), "x", 4);
  SetValue(graph->add_output(), "logits", 3);
  AddWeights(graph, "w0", 4, 5);
  AddWeights(graph, "w1", 5, 3);
  AddNode(graph, "Gemm", {"x", "w0"}, "h");
  AddNode(graph, "Relu", {"h"}, "r");
  AddNode(graph, "Gemm", {"r", "w1"}, "logits");
  return model.SerializeAsString();
}

std::string ServiceTest::WriteNpy(const std::string& type, const std::vector<int64_t>& shape,
                                  const std::string& bytes) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
                                   type, fmt::join(shape, ", "));
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + bytes;
}

v1::JobSpec ServiceTest::MakeSpec(int workers) {
  v1::JobSpec spec;
  spec.set_name("test");
  *spec.mutable_model() = Upload("m.onnx", WriteModel());
  std::vector<float> x(20 * 4, 0.5f);
  std::vector<int64_t> y(20);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int64_t>(i % 3);
  *spec.add_data_files() = Upload("x.npy", WriteNpy("<f4", {20, 4}, Bytes(x)));
  *spec.add_data_files() = Upload("y.npy", WriteNpy("<i8", {20}, Bytes(y)));
  for (const char* name : {"x", "y"}) {
    v1::ColumnSpec* column = spec.add_train_columns();
    column->set_name(name);
    column->set_path(std::string(name) + ".npy");
    column->set_format("auto");
    column->set_scale(1);
  }
  v1::LossTerm* loss = spec.add_loss();
  loss->set_kind("cross_entropy");
  loss->set_output("logits");
  loss->set_label("y");
  loss->set_weight(1);
  spec.mutable_optimizer()->set_kind("sgd");
  spec.mutable_optimizer()->set_beta1(0.9);
  spec.mutable_optimizer()->set_beta2(0.999);
  spec.mutable_optimizer()->set_epsilon(1e-8);
  spec.mutable_learning_rate()->set_kind("constant");
  spec.mutable_learning_rate()->set_base(0.1);
  spec.mutable_learning_rate()->set_gamma(0.1);
  spec.set_epochs(1);
  spec.set_batch_size(5);
  spec.set_microbatches(1);
  spec.set_schedule("pipedream");
  spec.set_workers(workers);
  spec.set_transport("auto");
  spec.set_start_timeout_s(600);
  return spec;
}

absl::Status ServiceTest::Submit(const v1::JobSpec& spec, const std::string& key,
                                 v1::SubmitJobResponse* out, bool validate_only) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_idempotency_key(key);
  request.set_validate_only(validate_only);
  grpc::ClientContext context;
  return FromGrpcStatus(stub_->SubmitJob(&context, request, out));
}

v1::Job ServiceTest::Get(const std::string& id) {
  v1::GetJobRequest request;
  request.set_job_id(id);
  v1::Job job;
  grpc::ClientContext context;
  EXPECT_OK(FromGrpcStatus(stub_->GetJob(&context, request, &job)));
  return job;
}

absl::Status ServiceTest::Cancel(const std::string& id, v1::Job* out) {
  v1::CancelJobRequest request;
  request.set_job_id(id);
  grpc::ClientContext context;
  return FromGrpcStatus(stub_->CancelJob(&context, request, out));
}

int64_t ServiceTest::Register(const std::string& id) {
  v1::RegisterWorkerRequest request;
  v1::Worker* worker = request.mutable_worker();
  worker->set_id(id);
  worker->set_device_kind("cpu");
  worker->set_memory_bytes(1 << 30);
  worker->set_control_address("127.0.0.1:1");
  worker->mutable_data_address()->set_host("127.0.0.1");
  worker->mutable_data_address()->set_port(2);
  worker->mutable_data_address()->set_host_id("host");
  v1::RegisterWorkerResponse response;
  grpc::ClientContext context;
  EXPECT_OK(FromGrpcStatus(stub_->RegisterWorker(&context, request, &response)));
  EXPECT_EQ(response.lease_s(), 3);
  return incarnations_[response.worker_id()] = response.incarnation();
}

absl::StatusOr<bool> ServiceTest::Beat(const std::string& worker, int64_t incarnation,
                                       const v1::StageReport* report) {
  v1::HeartbeatRequest request;
  request.set_worker_id(worker);
  request.set_incarnation(incarnation);
  if (report != nullptr) *request.mutable_stage() = *report;
  v1::HeartbeatResponse response;
  grpc::ClientContext context;
  PD_RETURN_IF_ERROR(FromGrpcStatus(stub_->Heartbeat(&context, request, &response)));
  return response.drop_stage();
}

v1::Job ServiceTest::WaitFor(const std::string& id, v1::JobState state) {
  v1::WatchJobRequest request;
  request.set_job_id(id);
  grpc::ClientContext context;
  auto reader = stub_->WatchJob(&context, request);
  v1::WatchJobResponse response;
  v1::Job job;
  while (reader->Read(&response)) {
    job = response.job();
    if (job.state() == state) break;
  }
  context.TryCancel();
  reader->Finish();
  EXPECT_EQ(job.state(), state) << job.reason();
  return job;
}

std::vector<v1::JobEvent> ServiceTest::WatchToEnd(const std::string& id, int64_t after) {
  v1::WatchJobRequest request;
  request.set_job_id(id);
  request.set_after_sequence(after);
  grpc::ClientContext context;
  auto reader = stub_->WatchJob(&context, request);
  v1::WatchJobResponse response;
  std::vector<v1::JobEvent> events;
  while (reader->Read(&response))
    events.insert(events.end(), response.events().begin(), response.events().end());
  EXPECT_OK(FromGrpcStatus(reader->Finish()));
  return events;
}

v1::Job ServiceTest::RunningJob() {
  Register("w1");
  Register("w2");
  v1::SubmitJobResponse response;
  EXPECT_OK(Submit(MakeSpec(2), "", &response));
  return WaitFor(response.job().id(), v1::JOB_STATE_RUNNING);
}

v1::StageReport ServiceTest::Report(const std::string& job, v1::StageReport::State state) {
  v1::StageReport report;
  report.set_job_id(job);
  report.set_attempt(1);
  report.set_state(state);
  return report;
}

}  // namespace pipedream
