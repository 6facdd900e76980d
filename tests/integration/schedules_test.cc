// Every schedule over real processes: what they train must be what one thread computes for the same
// plan, bit for bit, and where a schedule only orders the work, what one process trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "tests/integration/cluster.h"
#include "tests/integration/trained_model.h"
#include "tests/support/small_job.h"
#include "tests/support/small_models.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

// 37 samples in minibatches of 8, the last one of an epoch holds 5; no BatchNorm, whose sums depend
// on the cut.
SmallJobOptions WithoutNorms() { return {.batch_norm = false}; }

class SchedulesTest : public testing::Test {
 protected:
  void Start(int workers, const SmallJobOptions& options = WithoutNorms()) {
    small_ = std::make_unique<SmallJob>(options);
    ASSERT_OK(cluster_.Start(Patient(workers)));
  }

  // Trains, and compares with the simulation of the plan.
  void Train(const std::string& config, const Words& flags, const std::string& model_path = "") {
    SCOPED_TRACE(testing::PrintToString(flags));
    ASSERT_OK_AND_ASSIGN(job_, cluster_.Train(JobWords(*small_, flags, model_path)));
    EXPECT_EQ(ConfigOf(job_), config);
    onnx_ = cluster_.folder() + "/" + job_.id() + ".onnx";
    const CommandResult exported = cluster_.Run({"export", job_.id(), "--onnx", onnx_});
    ASSERT_EQ(exported.code, 0) << exported.err;
    std::shared_ptr<const Model> model = small_->model();
    if (!model_path.empty()) {
      ASSERT_OK_AND_ASSIGN(model, Model::Load(model_path));
    }
    ASSERT_OK_AND_ASSIGN(options_, SimulationOf(job_, *small_, model));
    ASSERT_OK_AND_ASSIGN(SimulationResult simulated, Simulate(options_));
    ExpectBitEqual(job_, onnx_, simulated);
  }

  // And with one process.
  void TrainSynchronously(const std::string& config, const Words& flags,
                          const std::string& model_path = "") {
    Train(config, flags, model_path);
    if (HasFatalFailure()) return;
    SCOPED_TRACE(testing::PrintToString(flags));
    ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(OnOneStage(options_)));
    ExpectBitEqual(job_, onnx_, whole);
  }

  std::unique_ptr<SmallJob> small_;
  TestCluster cluster_;
  // Of the last job.
  v1::Job job_;
  std::string onnx_;
  SimulationOptions options_;
};

TEST_F(SchedulesTest, AsynchronousOnes) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  const Words straight = {"--stages", "3", "--max-replicas", "1"};
  const auto with = [&](Words flags) {
    flags.insert(flags.end(), straight.begin(), straight.end());
    return flags;
  };
  ASSERT_NO_FATAL_FAILURE(Train("1-1-1", with({"--schedule", "pipedream_vsync"})));
  ASSERT_NO_FATAL_FAILURE(
      Train("1-1-1", with({"--schedule", "2bw", "--microbatches", "4", "--clip-norm", "0.5"})));
  ASSERT_NO_FATAL_FAILURE(Train("1-1-1", with({"--schedule", "paci", "--microbatches", "4"})));
}

TEST_F(SchedulesTest, SynchronousOnes) {
  ASSERT_NO_FATAL_FAILURE(Start(3));
  for (const char* schedule : {"zb_h1", "zb_h2", "sequential"}) {
    ASSERT_NO_FATAL_FAILURE(TrainSynchronously(
        "1-1-1", {"--schedule", schedule, "--microbatches", "4", "--stages", "3"}));
  }
  // Every update is made before its norm is known, and taken back.
  ASSERT_NO_FATAL_FAILURE(TrainSynchronously("1-1-1", {"--schedule", "zb_h2", "--microbatches", "4",
                                                       "--stages", "3", "--clip-norm", "0.5"}));
  // The sum over replicas has another order than one process's.
  ASSERT_NO_FATAL_FAILURE(Train("3", {"--schedule", "data_parallel", "--microbatches", "4"}));
  // Forwards in pairs.
  const std::string table = cluster_.folder() + "/pairs.txt";
  std::ofstream(table) << "schedule pairs policy=flush replicas=1,1 microbatches=4\n"
                          "s0.r0: F0 F1 B0 B1 F2 F3 B2 B3\n"
                          "s1.r0: F0 F1 I0 I1 W0 W1 F2 F3 B2 B3\n";
  ASSERT_NO_FATAL_FAILURE(TrainSynchronously("1-1", {"--schedule-file", table}));
  EXPECT_EQ(job_.plan().schedule(), "pairs");
}

TEST_F(SchedulesTest, SeveralStagesOnADevice) {
  ASSERT_NO_FATAL_FAILURE(Start(2));
  ASSERT_NO_FATAL_FAILURE(
      TrainSynchronously("1-1-1-1", {"--schedule", "zb_v", "--microbatches", "4"}));
  EXPECT_THAT(job_.plan().device_of(), testing::ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(job_.plan().stages(0).workers(0), job_.plan().stages(3).workers(0));
  EXPECT_EQ(job_.progress().minibatch(), 10);
  EXPECT_THAT(cluster_.Run({"describe", "job", job_.id()}).out,
              testing::AllOf(HasSubstr("Plan 1-1-1-1 on 2 devices: 4 stages on 2 workers"),
                             HasSubstr("0+3.0"), HasSubstr("1+2.0")));
  EXPECT_THAT(cluster_.Run({"get", "jobs", "-o", "wide"}).out, HasSubstr("1-1-1-1 on 2 devices"));
  ASSERT_NO_FATAL_FAILURE(
      TrainSynchronously("1-1-1-1", {"--schedule", "interleaved", "--chunks", "2", "--stages", "4",
                                     "--microbatches", "4", "--clip-norm", "0.5"}));
  EXPECT_THAT(job_.plan().device_of(), testing::ElementsAre(0, 1, 0, 1));
  // Stage 0 is on the second device, whose worker comes second.
  const std::string table = cluster_.folder() + "/turned.txt";
  std::ofstream(table)
      << "schedule turned policy=flush replicas=1,1,1 devices=1,0,0 microbatches=2\n"
         "s1.r0: F0 F0c1 B0c1 B0 F1 F1c1 B1c1 B1\n"
         "s0.r0: F0 F1 B0 B1\n";
  ASSERT_NO_FATAL_FAILURE(TrainSynchronously("1-1-1", {"--schedule-file", table}));
  const CommandResult verified = cluster_.Run({"verify", job_.id()});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
}

TEST_F(SchedulesTest, ValuesThatSkipStagesAndParametersThatStagesShare) {
  ASSERT_NO_FATAL_FAILURE(Start(4));
  const std::string skips = WriteSkipModel(small_->folder());
  ASSERT_NO_FATAL_FAILURE(
      Train("1-1-1-1", {"--schedule", "1f1b", "--microbatches", "4", "--stages", "4"}, skips));
  ASSERT_OK_AND_ASSIGN(ScheduleShape shape, ShapeOf(options_));
  EXPECT_FALSE(shape.edges.empty()) << "no value skips a stage";
  // Only four stages part the two readers of the matrix.
  const std::string tied = WriteTiedModel(small_->folder());
  for (const char* schedule : {"1f1b", "2bw"}) {
    SCOPED_TRACE(schedule);
    ASSERT_NO_FATAL_FAILURE(
        Train("1-1-1-1", {"--schedule", schedule, "--microbatches", "4", "--stages", "4"}, tied));
    ASSERT_OK_AND_ASSIGN(shape, ShapeOf(options_));
    EXPECT_EQ(shape.tied_stages.size(), 2u);
    EXPECT_THAT(job_.warnings(), testing::Contains(HasSubstr("readers of a parameter are parted")));
    if (schedule == std::string("2bw")) continue;
    ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(OnOneStage(options_)));
    ASSERT_EQ(whole.losses.size(), static_cast<size_t>(job_.progress().curve_size()));
    for (size_t i = 0; i < whole.losses.size(); ++i) {
      const v1::LossPoint& point = job_.progress().curve(static_cast<int>(i));
      const double loss = point.loss_sum() / static_cast<double>(point.samples());
      EXPECT_NEAR(loss, whole.losses[i], 1e-5 * std::abs(whole.losses[i])) << i;
    }
  }
  const CommandResult refused =
      cluster_.Run({"plan", "--model", tied, "--data", small_->folder(), "--loss", "cross_entropy",
                    "--batch-size", "8", "--stages", "4"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("part the readers of a parameter"));
}

TEST_F(SchedulesTest, WishesThatCannotBeMetAreRefusedAtSubmit) {
  ASSERT_NO_FATAL_FAILURE(Start(1));
  const std::string table = cluster_.folder() + "/bad.csv";
  std::ofstream(table) << "0F0,0B0\n,1X0\n";
  struct Case {
    Words flags;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {{"--recompute", "conv9"},
            "recompute: no node of the model is called 'conv9'; did you "},
           {{"--schedule", "paci", "--recompute", "stage"}, "recompute: not with schedule 'paci'"},
           {{"--chunks", "2"}, "chunks: 2, but schedule 'pipedream' has one stage per device"},
           {{"--schedule-file", table}, "/bad.csv: schedule CSV, row 2 cell 2: '1X0'"},
           {{"--on-nonfinite", "ignore"}, "on_nonfinite: 'ignore' is unknown"},
       }) {
    Words words = JobWords(*small_, c.flags);
    words.insert(words.begin(), "submit");
    const CommandResult result = cluster_.Run(words);
    EXPECT_EQ(result.code, 3) << c.message;
    EXPECT_THAT(result.err, HasSubstr(c.message));
  }
}

TEST_F(SchedulesTest, APlanThatWasSavedIsTrainedByTheWorkersThatItNames) {
  ASSERT_NO_FATAL_FAILURE(Start(2));
  const std::string path = cluster_.folder() + "/plan.yaml";
  Words words =
      JobWords(*small_, {"--stages", "2", "--max-replicas", "1", "--save", path, "-o", "name"});
  words.insert(words.begin(), "plan");
  const CommandResult planned = cluster_.Run(words);
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(planned.out, "1-1\n");
  ASSERT_NO_FATAL_FAILURE(Train("1-1", {"--plan", path}));
  ASSERT_OK_AND_ASSIGN(std::string plan, ReadFile(path, 1 << 20));
  for (size_t at = 0; (at = plan.find("worker-1", at)) != std::string::npos; at += 8)
    plan.replace(at, 8, "worker-9");
  ASSERT_OK(WriteFileAtomic(path, plan));
  words = JobWords(*small_, {"--plan", path, "--wait"});
  words.insert(words.begin(), "submit");
  const CommandResult refused = cluster_.Run(words);
  EXPECT_EQ(refused.code, 100);
  EXPECT_THAT(refused.err, HasSubstr("PLAN_REJECTED"));
  EXPECT_THAT(refused.err, HasSubstr("worker 'worker-9', which is not registered"));
}

TEST_F(SchedulesTest, RecomputationAndUpdatesThatAreSkipped) {
  SmallJobOptions options = WithoutNorms();
  options.infinite_sample = 17;
  ASSERT_NO_FATAL_FAILURE(Start(2, options));
  // Minibatch 2 of every epoch holds sample 17.
  const Words flags = {
      "--schedule",  "1f1b",  "--microbatches", "2",     "--stages",       "2",   "--no-shuffle",
      "--recompute", "pool1", "--recompute",    "relu*", "--on-nonfinite", "skip"};
  ASSERT_NO_FATAL_FAILURE(TrainSynchronously("1-1", flags));
  ASSERT_EQ(job_.progress().stages_size(), 2);
  for (const v1::StageProgress& stage : job_.progress().stages()) {
    EXPECT_EQ(stage.skipped_updates(), 2);
    EXPECT_EQ(stage.updates(), 10);
  }
  EXPECT_THAT(cluster_.Run({"describe", "job", job_.id()}).out,
              HasSubstr("2 of 10 updates, since a loss or gradient was not finite"));
  EXPECT_THAT(cluster_.Run({"logs", job_.id()}).out, HasSubstr("has skipped"));
  SimulationOptions kept = options_;
  kept.spec.recompute = {};
  ASSERT_OK_AND_ASSIGN(SimulationResult without, Simulate(kept));
  ExpectBitEqual(job_, onnx_, without);
}

}  // namespace
}  // namespace pipedream
