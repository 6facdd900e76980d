#include "client/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "client/exit_codes.h"
#include "common/base/file.h"
#include "tests/client/fake_coordinator.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// y = x W, with x [N, 4] and three classes.
void WriteModel(const std::string& path) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(13);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  auto value = [](onnx::ValueInfoProto* info, const char* name, int features) {
    info->set_name(name);
    auto* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    type->mutable_shape()->add_dim()->set_dim_param("N");
    type->mutable_shape()->add_dim()->set_dim_value(features);
  };
  value(graph.add_input(), "x", 4);
  value(graph.add_output(), "logits", 3);
  onnx::TensorProto& w = *graph.add_initializer();
  w.set_name("w");
  w.set_data_type(onnx::TensorProto::FLOAT);
  w.add_dims(4);
  w.add_dims(3);
  for (int i = 0; i < 12; ++i) w.add_float_data(0.1f * static_cast<float>(i));
  onnx::NodeProto& node = *graph.add_node();
  node.set_name("fc");
  node.set_op_type("MatMul");
  node.add_input("x");
  node.add_input("w");
  node.add_output("logits");
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
}

class CommandLineTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/command-line-" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    WriteModel(folder_ + "/m.onnx");
    std::ofstream(folder_ + "/x.npy") << "inputs";
    std::ofstream(folder_ + "/y.npy") << "labels";
    ASSERT_OK_AND_ASSIGN(server_, RpcServer::Start({}, {&fake_}));
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  int Run(std::vector<std::string> arguments, const std::string& input = "") {
    std::istringstream in(input);
    out_.str("");
    err_.str("");
    CommandContext context;
    context.terminal = Terminal{&out_, &err_};
    context.server.flag = server_ == nullptr ? "127.0.0.1:1" : server_->address();
    context.input = &in;
    context.clock = &clock_;
    return RunCommandLine(arguments, context);
  }
  std::vector<std::string> SubmitArguments(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"submit",
                                          "--model",
                                          folder_ + "/m.onnx",
                                          "--data",
                                          "x=" + folder_ + "/x.npy",
                                          "--labels",
                                          folder_ + "/y.npy",
                                          "--loss",
                                          "cross_entropy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // A job that runs through, in three messages.
  void Script(const std::string& id, v1::JobState end) {
    std::vector<v1::WatchJobResponse> responses(3);
    for (v1::WatchJobResponse& response : responses) response.mutable_job()->set_id(id);
    responses[0].mutable_job()->set_state(v1::JOB_STATE_QUEUED);
    responses[1].mutable_job()->set_state(v1::JOB_STATE_RUNNING);
    auto* progress = responses[1].mutable_job()->mutable_progress();
    progress->set_minibatch(5);
    progress->set_minibatches(10);
    progress->set_epochs(1);
    progress->set_loss(0.5);
    for (int i = 0; i < 2; ++i) {
      auto* event = responses[i].add_events();
      event->set_sequence(i + 1);
      event->set_source("coordinator");
      event->set_level("info");
      event->set_message(i == 0 ? "queued" : "running");
    }
    responses[2].mutable_job()->set_state(end);
    responses[2].mutable_job()->set_last_sequence(2);
    if (end == v1::JOB_STATE_FAILED) {
      responses[2].mutable_job()->mutable_failure()->set_message("worker gone");
      responses[2].mutable_job()->mutable_failure()->set_stage(-1);
    }
    fake_.SetJob(responses[2].job());
    fake_.SetWatch(id, std::move(responses));
  }
  void SetJob(const std::string& id, v1::JobState state = v1::JOB_STATE_UNSPECIFIED) {
    v1::Job job;
    job.set_id(id);
    job.set_state(state);
    fake_.SetJob(job);
  }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  std::string folder_;
  FakeCoordinator fake_;
  std::unique_ptr<RpcServer> server_;
  FakeClock clock_;
  std::ostringstream out_, err_;
};

TEST_F(CommandLineTest, SubmitUploadsWhatIsMissingAndPrintsTheId) {
  fake_.AddBlob("labels");  // known from an earlier job
  ASSERT_EQ(Run(SubmitArguments({"--epochs", "3", "-o", "name"})), 0) << err();
  EXPECT_EQ(out(), "new-job\n");
  EXPECT_THAT(err(), HasSubstr("uploaded 2 files"));
  EXPECT_THAT(err(), HasSubstr("pipedream logs -f new-job"));
  const std::vector<v1::SubmitJobRequest> submitted = fake_.submitted();
  ASSERT_EQ(submitted.size(), 1u);
  const v1::SubmitJobRequest& request = submitted[0];
  EXPECT_EQ(request.idempotency_key().size(), 32u);
  EXPECT_EQ(request.spec().epochs(), 3);
  EXPECT_EQ(request.spec().loss(0).output(), "logits");  // resolved against the model
  EXPECT_EQ(request.spec().loss(0).label(), "labels");
  EXPECT_EQ(request.spec().data_files_size(), 2);
  const std::map<std::string, std::string> blobs = fake_.blobs();
  for (const auto& file : request.spec().data_files()) {
    EXPECT_TRUE(blobs.count(file.sha256())) << file.path();
  }
  EXPECT_TRUE(blobs.count(request.spec().model().sha256()));
}

TEST_F(CommandLineTest, SubmitSendsTheKeyItIsGiven) {
  ASSERT_EQ(Run(SubmitArguments({"--idempotency-key", "k1"})), 0) << err();
  EXPECT_EQ(fake_.submitted().at(0).idempotency_key(), "k1");
}

TEST_F(CommandLineTest, FollowShowsProgressOnStderrAndEndsWithTheJobsExitCode) {
  Script("new-job", v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run(SubmitArguments({"--follow"})), 0) << err();
  EXPECT_EQ(out(), "job new-job submitted\n");
  EXPECT_THAT(err(), HasSubstr("epoch 1/1 step 5/10 loss 0.5000"));
  EXPECT_THAT(err(), HasSubstr("coordinator: running"));
  EXPECT_THAT(err(), HasSubstr("job new-job SUCCEEDED"));
  Script("new-job", v1::JOB_STATE_FAILED);
  EXPECT_EQ(Run(SubmitArguments({"--wait"})), 100);
  EXPECT_THAT(err(), HasSubstr("worker gone"));
  EXPECT_THAT(err(), Not(HasSubstr("epoch")));
  Script("new-job", v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Run(SubmitArguments({"--wait"})), 103);
}

TEST_F(CommandLineTest, FollowWithJsonPrintsOneDocument) {
  Script("new-job", v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run(SubmitArguments({"--follow", "-o", "json"})), 0) << err();
  json job = json::parse(out());
  EXPECT_EQ(job["kind"], "Job");
  EXPECT_EQ(job["state"], "SUCCEEDED");
}

TEST_F(CommandLineTest, DryRunStartsNothing) {
  EXPECT_EQ(Run(SubmitArguments({"--dry-run"})), 0) << err();
  EXPECT_TRUE(fake_.submitted().empty());
  EXPECT_TRUE(fake_.blobs().empty());
  EXPECT_EQ(Run(SubmitArguments({"--dry-run=server"})), 0) << err();
  const std::vector<v1::SubmitJobRequest> submitted = fake_.submitted();
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_TRUE(submitted[0].validate_only());
  EXPECT_EQ(Run(SubmitArguments({"--dry-run=maybe"})), kExitUsage);
}

TEST_F(CommandLineTest, MissingFilesAreRejectedByName) {
  EXPECT_EQ(Run({"submit", "--model", "/nowhere/m.onnx", "--data", "d", "--loss", "mse"}),
            kExitRejected);
  EXPECT_THAT(err(), HasSubstr("/nowhere/m.onnx"));
  std::filesystem::remove(folder_ + "/x.npy");
  EXPECT_EQ(Run(SubmitArguments()), kExitRejected);
  EXPECT_THAT(err(), HasSubstr(folder_ + "/x.npy"));
  EXPECT_EQ(Run({"submit", "-f", "/nowhere/job.yaml"}), kExitRejected);
  EXPECT_THAT(err(), HasSubstr("/nowhere/job.yaml"));
}

TEST_F(CommandLineTest, CorruptModelsAreRejectedBeforeAnythingIsSent) {
  std::ofstream(folder_ + "/m.onnx") << "this is no model";
  EXPECT_EQ(Run(SubmitArguments()), kExitRejected);
  EXPECT_THAT(err(), HasSubstr("m.onnx"));
  EXPECT_TRUE(fake_.blobs().empty());
}

TEST_F(CommandLineTest, WrongInputNamesAreRejected) {
  EXPECT_EQ(Run({"submit", "--model", folder_ + "/m.onnx", "--data", "z=" + folder_ + "/x.npy",
                 "--labels", folder_ + "/y.npy", "--loss", "cross_entropy"}),
            kExitRejected);
  EXPECT_THAT(err(), HasSubstr("'x'"));
}

TEST_F(CommandLineTest, RefusalsOfTheCoordinatorKeepTheirReasonInJson) {
  fake_.SetSubmitError(WithReason(ResourceExhausted("stage 1 needs 9 GiB"), "MEMORY"));
  EXPECT_EQ(Run(SubmitArguments({"-o", "json"})), kExitConflict);
  EXPECT_EQ(out(), "");
  std::string last = err().substr(err().rfind('\n', err().size() - 2) + 1);
  json error = json::parse(last);
  EXPECT_EQ(error["code"], "RESOURCE_EXHAUSTED");
  EXPECT_EQ(error["reason"], "MEMORY");
  EXPECT_EQ(error["exit_code"], 8);
}

TEST_F(CommandLineTest, OtherVersionsAreRefused) {
  fake_.SetVersion("0.3.0");
  EXPECT_EQ(Run(SubmitArguments()), kExitVersionSkew);
  EXPECT_THAT(err(), HasSubstr("0.3.0"));
  EXPECT_EQ(Run({"version"}), kExitVersionSkew);
  fake_.SetVersion("0.2.7");
  EXPECT_EQ(Run({"version"}), 0);
  EXPECT_THAT(out(), HasSubstr("coordinator 0.2.7"));
  EXPECT_EQ(Run({"version", "--client", "-o", "json"}), 0);
  EXPECT_EQ(json::parse(out())["coordinator"], nullptr);
}

TEST_F(CommandLineTest, PlanPrintsTheTableOrJson) {
  v1::Plan plan;
  auto* stage = plan.add_stages();
  stage->add_nodes(0);
  stage->set_first_node_name("fc");
  stage->set_last_node_name("fc");
  stage->add_workers("worker-1");
  stage->set_versions(1);
  plan.set_schedule("pipedream");
  fake_.SetPlan(plan);
  auto arguments = SubmitArguments();
  arguments[0] = "plan";
  ASSERT_EQ(Run(arguments), 0) << err();
  EXPECT_THAT(out(), HasSubstr("worker-1"));
  EXPECT_THAT(err(), HasSubstr("links are uneven"));
  arguments.insert(arguments.end(), {"-o", "json"});
  ASSERT_EQ(Run(arguments), 0);
  EXPECT_EQ(json::parse(out())["stages"][0]["workers"][0], "worker-1");
}

v1::PlanJobResponse Measured() {
  v1::PlanJobResponse measured;
  v1::Profile& profile = *measured.add_profiles();
  profile.set_device_kind("cpu");
  profile.set_microbatch_size(64);
  for (const char* name : {"a", "b"}) {
    v1::NodeProfile& node = *profile.add_nodes();
    node.set_name(name);
    node.set_forward_s(0.010);
    node.set_input_gradient_s(0.020);
    node.set_parameter_bytes(4000);
  }
  v1::ProfileTensor& tensor = *profile.add_tensors();
  tensor.add_early(0);
  tensor.add_late(1);
  tensor.set_bytes(1000);
  for (int d = 0; d < 2; ++d) {
    v1::DeviceInfo& device = *measured.mutable_topology()->add_devices();
    device.set_worker_id("worker-" + std::to_string(d + 1));
    device.set_kind("cpu");
    device.set_host_id("host");
    v1::LinkInfo& link = *measured.mutable_topology()->add_links();
    link.set_from(d);
    link.set_to(1 - d);
    link.set_bandwidth_bytes_per_s(1e9);
  }
  return measured;
}

TEST_F(CommandLineTest, OtherRulesAndClustersArePlannedHereByWhatWasMeasured) {
  fake_.SetMeasured(Measured());
  auto arguments = SubmitArguments({"-o", "json", "--what-if", "workers=4"});
  arguments[0] = "plan";
  ASSERT_EQ(Run(arguments), 0) << err();
  const json plan = json::parse(out());
  EXPECT_EQ(plan["rule"], "measured");
  EXPECT_EQ(plan["topology"]["devices"].size(), 4u);
  EXPECT_EQ(plan["profiles"][0]["device_kind"], "cpu");
  EXPECT_EQ(plan["model_warnings"][0], "links are uneven");
  EXPECT_LT(plan["step_s"].get<double>(), 0.031);
}

TEST_F(CommandLineTest, ProfileMakeSavesWhatPlanReads) {
  fake_.SetMeasured(Measured());
  auto arguments =
      SubmitArguments({"--save", folder_ + "/own.json", "--save-topology", folder_ + "/here.yaml"});
  arguments[0] = "make";
  arguments.insert(arguments.begin(), "profile");
  ASSERT_EQ(Run(arguments), 0) << err();
  EXPECT_THAT(out(), HasSubstr("Sum: 60 ms per microbatch"));
  ASSERT_EQ(Run({"plan", "--profile", folder_ + "/own.json", "--topology", folder_ + "/here.yaml",
                 "-o", "name"}),
            0)
      << err();
  EXPECT_EQ(out().size(), std::string("1-1\n").size());
}

TEST_F(CommandLineTest, SubmitSendsAPlanFile) {
  std::ofstream(folder_ + "/plan.yaml")
      << "{apiVersion: pipedream/v1, kind: Plan, schedule: 1f1b, stages: [{nodes: [0], workers: "
         "[worker-1]}]}\n";
  ASSERT_EQ(Run(SubmitArguments({"--plan", folder_ + "/plan.yaml", "-o", "name"})), 0) << err();
  const v1::JobSpec spec = fake_.submitted().at(0).spec();
  EXPECT_EQ(spec.schedule(), "1f1b");
  EXPECT_EQ(spec.plan().stages(0).workers(0), "worker-1");
  EXPECT_EQ(Run(SubmitArguments({"--plan", folder_ + "/plan.yaml", "--schedule", "gpipe"})),
            kExitRejected);
  EXPECT_THAT(err(), HasSubstr("plan: is for schedule '1f1b', the job's is 'gpipe'"));
  EXPECT_EQ(Run(SubmitArguments({"--plan", folder_ + "/plan.yaml", "--stages", "2"})),
            kExitRejected);
  EXPECT_THAT(err(), HasSubstr("stages: the plan says it already"));
}

TEST_F(CommandLineTest, VerifyPrintsTheVerdictAndItsChecks) {
  SetJob("j", v1::JOB_STATE_SUCCEEDED);
  v1::VerifyReport report;
  report.set_verified(true);
  report.set_schedule("1f1b");
  report.set_declared("flush");
  for (const char* policy : {"flush", "stash"}) report.add_followed(policy);
  report.set_minibatches(90);
  report.set_replay_s(1.5);
  v1::VerifyCheck* check = report.add_checks();
  check->set_name("losses");
  check->set_outcome(v1::VerifyCheck::OUTCOME_PASSED);
  check->set_detail("equal bit for bit");
  fake_.SetVerification(report);
  ASSERT_EQ(Run({"verify", "j", "--steps", "7"}), 0) << err();
  EXPECT_EQ(out(),
            "j: VERIFIED; schedule 1f1b promises flush, the run followed flush (here the same as "
            "stash); replayed 7 of 90 minibatches in 1.5 s\n\n"
            "CHECK   RESULT  DETAIL\n"
            "losses  passed  equal bit for bit\n");
  report.clear_followed();
  fake_.SetVerification(report);
  ASSERT_EQ(Run({"verify", "j"}), 0);
  EXPECT_THAT(out(), HasSubstr("promises flush, the run followed its table;"));
  report.set_verified(false);
  report.mutable_checks(0)->set_outcome(v1::VerifyCheck::OUTCOME_FAILED);
  fake_.SetVerification(report);
  EXPECT_EQ(Run({"verify", "j"}), 104);
  EXPECT_THAT(out(), HasSubstr("j: NOT VERIFIED; schedule 1f1b promises flush, the run followed "
                               "none of the known semantics"));
  EXPECT_THAT(out(), HasSubstr("losses  FAILED"));
  EXPECT_EQ(Run({"verify", "j", "-o", "json"}), 104);
  EXPECT_EQ(json::parse(out())["checks"][0]["outcome"], "FAILED");
  EXPECT_EQ(Run({"verify", "nothing"}), kExitNotFound);
  EXPECT_EQ(Run({"verify", "j", "--steps", "0"}), kExitUsage);
  EXPECT_EQ(Run({"verify", "j", "-o", "name"}), kExitUsage);
}

TEST_F(CommandLineTest, GetJobsReadsAllPagesUpToItsLimit) {
  for (const char* id : {"j1", "j2", "j3", "j4", "j5"}) SetJob(id);
  ASSERT_EQ(Run({"get", "jobs", "-o", "name"}), 0) << err();
  EXPECT_EQ(out(), "j1\nj2\nj3\nj4\nj5\n");
  ASSERT_EQ(Run({"get", "jobs", "-o", "name", "--limit", "3"}), 0);
  EXPECT_EQ(out(), "j1\nj2\nj3\n");
  ASSERT_EQ(Run({"-o", "json", "get", "jobs"}), 0);
  EXPECT_EQ(json::parse(out())["items"].size(), 5u);
  ASSERT_EQ(Run({"get", "jobs", "--no-headers"}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("STATE")));
  ASSERT_EQ(Run({"get", "jobs", "--state", "running,queued"}), 0);
  EXPECT_EQ(fake_.states_asked(), (std::set<int>{v1::JOB_STATE_RUNNING, v1::JOB_STATE_QUEUED}));
}

TEST_F(CommandLineTest, GetJobExitStatus) {
  SetJob("j", v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Run({"get", "job", "j", "--exit-status"}), 101);
  SetJob("j", v1::JOB_STATE_FAILED);
  EXPECT_EQ(Run({"get", "job", "j", "--exit-status"}), 100);
  EXPECT_EQ(Run({"get", "jobs", "--exit-status"}), kExitUsage);
}

TEST_F(CommandLineTest, GetWorkersWide) {
  v1::Worker worker;
  worker.set_id("worker-1");
  worker.set_control_address("127.0.0.1:5");
  fake_.SetWorkers({worker});
  ASSERT_EQ(Run({"get", "workers", "-o", "wide"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("127.0.0.1:5"));
  EXPECT_EQ(Run({"get", "workers", "worker-9"}), kExitNotFound);
}

TEST_F(CommandLineTest, DescribeShowsJobAndEvents) {
  Script("j", v1::JOB_STATE_SUCCEEDED);
  ASSERT_EQ(Run({"describe", "job", "j"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("SUCCEEDED"));
  EXPECT_THAT(out(), HasSubstr("coordinator: running"));
  ASSERT_EQ(Run({"describe", "job", "j", "-o", "json"}), 0);
  EXPECT_EQ(json::parse(out())["events"].size(), 2u);
  EXPECT_EQ(Run({"describe", "job", "k"}), kExitNotFound);
  EXPECT_THAT(err(), HasSubstr("pipedream get jobs"));
}

TEST_F(CommandLineTest, LogsPrintsEachEventOnce) {
  Script("j", v1::JOB_STATE_FAILED);
  ASSERT_EQ(Run({"logs", "j"}), 0) << err();
  EXPECT_EQ(out(), "00:00:00 coordinator: queued\n00:00:00 coordinator: running\n");
  EXPECT_EQ(Run({"logs", "j", "-f"}), 100);
  EXPECT_EQ(out(), "00:00:00 coordinator: queued\n00:00:00 coordinator: running\n");
  EXPECT_EQ(Run({"logs", "j", "--tail", "1"}), 0);
  EXPECT_EQ(out(), "00:00:00 coordinator: running\n");
}

TEST_F(CommandLineTest, CancelSaysWhatCameOfIt) {
  SetJob("j");
  EXPECT_EQ(Run({"cancel", "j"}), 0);
  EXPECT_EQ(out(), "job j cancelled\n");
  EXPECT_EQ(Run({"cancel", "k"}), kExitNotFound);
}

TEST_F(CommandLineTest, ExportWritesTheTrainedModel) {
  std::string trained(3000, 'm');
  SetJob("j", v1::JOB_STATE_RUNNING);
  std::string path = folder_ + "/trained.onnx";
  EXPECT_EQ(Run({"export", "j", "--onnx", path}), kExitConflict);
  EXPECT_THAT(err(), HasSubstr("RUNNING"));
  v1::Job job;
  job.set_id("j");
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  job.set_result_sha256(fake_.AddBlob(trained));
  fake_.SetJob(job);
  ASSERT_EQ(Run({"export", "j", "--onnx", path}), 0) << err();
  ASSERT_OK_AND_ASSIGN(std::string content, ReadFile(path, 1 << 20));
  EXPECT_EQ(content, trained);
  EXPECT_EQ(Run({"export", "j", "--onnx", folder_}), kExitRejected);
  EXPECT_EQ(Run({"export", "j", "--onnx", folder_ + "/none/x.onnx"}), kExitRejected);
  EXPECT_EQ(Run({"export", "j"}), kExitUsage);
}

TEST_F(CommandLineTest, UnreachableCoordinatorSaysWhatToStart) {
  std::string address = server_->address();
  server_.reset();
  EXPECT_EQ(Run({"get", "jobs", "--server", address}), kExitUnreachable);
  EXPECT_THAT(err(), HasSubstr(address));
  EXPECT_THAT(err(), HasSubstr("pipedream local"));
}

TEST_F(CommandLineTest, UsageErrorsNameTheNearestWord) {
  struct Case {
    std::vector<std::string> arguments;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {{"sumbit"}, "unknown command sumbit; did you mean submit?"},
           {{"get", "job5"}, "did you mean"},
           {{"submit", "--epoch", "3"}, "unknown flag --epoch; did you mean --epochs?"},
           {{"submit", "--epoch=3"}, "did you mean --epochs?"},
           {{"get", "jobs", "-o", "xml"}, "xml"},
           {{"logs", "j", "-o", "wide"}, "-o wide is for"},
           {{"logs"}, "ID"},
           {{"submit", "--wait", "--timeout", "soon"}, "soon"},
           {{"get", "jobs", "--", "x"}, "pipedream local"},
           {{}, "subcommand"},
           {{"help", "nothing"}, "no topic nothing"},
       }) {
    EXPECT_EQ(Run(c.arguments), kExitUsage) << c.message;
    EXPECT_THAT(err(), HasSubstr(c.message));
    EXPECT_EQ(out(), "");
  }
  EXPECT_EQ(Run({"get", "jobs", "--state", "RUNING"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("did you mean RUNNING"));
}

TEST_F(CommandLineTest, HelpIsData) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out(), HasSubstr("pipedream submit --model"));
  EXPECT_EQ(Run({"submit", "--help"}), 0);
  EXPECT_THAT(out(), HasSubstr("--idempotency-key"));
  EXPECT_EQ(Run({"help", "exit-codes"}), 0);
  EXPECT_THAT(out(), HasSubstr(" 103  the job was cancelled"));
  EXPECT_EQ(Run({"help", "get"}), 0);
  EXPECT_THAT(out(), HasSubstr("workers"));
  EXPECT_EQ(Run({"completion", "bash"}), 0);
  EXPECT_THAT(out(), HasSubstr("complete -F _pipedream pipedream"));
  EXPECT_THAT(out(), HasSubstr("\"get jobs\") words="));
}

TEST_F(CommandLineTest, JobFilesCanComeFromStandardInput) {
  std::string yaml = "model: " + folder_ +
                     "/m.onnx\nloss: cross_entropy\ndata: {train: {x: " + folder_ +
                     "/x.npy, y: " + folder_ + "/y.npy}}\nepochs: 4\n";
  ASSERT_EQ(Run({"submit", "-f", "-", "--set", "epochs=6"}, yaml), 0) << err();
  EXPECT_EQ(fake_.submitted().at(0).spec().epochs(), 6);
  EXPECT_EQ(Run({"submit", "-f", "-"}, yaml + "epoch: 3\n"), kExitRejected);
  EXPECT_THAT(err(), HasSubstr("standard input:5"));
}

}  // namespace
}  // namespace pipedream
