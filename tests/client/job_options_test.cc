#include "client/job_options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

absl::StatusOr<JobSpec> Build(const JobOptions& options, const std::string& input = "") {
  std::istringstream stream(input);
  return BuildJobSpec(options, stream);
}

JobOptions Minimal() {
  JobOptions options;
  options.settings = {{"model", "m.onnx"}, {"loss", "cross_entropy"}};
  options.data = {"folder"};
  return options;
}

TEST(JobOptions, FlagsBecomeASpec) {
  JobOptions options;
  options.settings = {{"model", "m.onnx"},
                      {"loss", "mse"},
                      {"optimizer.type", "adamw"},
                      {"optimizer.lr", "0.25"},
                      {"optimizer.warmup", "10"},
                      {"optimizer.schedule", "cosine"},
                      {"epochs", "3"},
                      {"batch_size", "32"},
                      {"freeze", "conv*"},
                      {"freeze", "bn*"},
                      {"shuffle", "false"},
                      {"schedule", "1f1b"},
                      {"stages", "2"},
                      {"name", "x"}};
  options.data = {"a=one.npy", "b.c=two.npy"};
  options.labels = "t.npy";
  options.test_data = {"a=three.npy", "b.c=four.npy"};
  options.test_labels = "labels=u.npy";
  ASSERT_OK_AND_ASSIGN(JobSpec spec, Build(options));
  JobSpec expected;
  expected.name = "x";
  expected.model.path = "m.onnx";
  auto column = [](const char* name, const char* path) {
    ColumnSpec c;
    c.name = name;
    c.path = path;
    return c;
  };
  expected.train_columns = {column("a", "one.npy"), column("b.c", "two.npy"),
                            column("labels", "t.npy")};
  expected.evaluation_columns = {column("a", "three.npy"), column("b.c", "four.npy"),
                                 column("labels", "u.npy")};
  expected.loss = {{LossTerm::Kind::kMse, "", "", 1}};
  expected.optimizer.kind = OptimizerKind::kAdamW;
  expected.learning_rate.kind = LrScheduleKind::kCosine;
  expected.learning_rate.base = 0.25;
  expected.learning_rate.warmup = 10;
  expected.freeze_patterns = {"conv*", "bn*"};
  expected.epochs = 3;
  expected.batch_size = 32;
  expected.shuffle = false;
  expected.schedule = "1f1b";
  expected.stages = 2;
  EXPECT_EQ(spec, expected);
}

TEST(JobOptions, AFolderOfDataIsKeptForTheModelToResolve) {
  ASSERT_OK_AND_ASSIGN(JobSpec spec, Build(Minimal()));
  EXPECT_EQ(spec.data_folder, "folder");
  EXPECT_TRUE(spec.train_columns.empty());
}

TEST(JobOptions, FlagsOverrideTheFileAndSetOverridesFlags) {
  JobOptions options;
  options.file = "-";
  options.settings = {{"epochs", "5"}, {"optimizer.lr", "0.5"}};
  options.sets = {"optimizer.lr=0.75", "warmup=[1, 0]", "stages=2"};
  ASSERT_OK_AND_ASSIGN(JobSpec spec, Build(options,
                                           "model: m.onnx\ndata: d\nloss: cross_entropy\n"
                                           "epochs: 2\nbatch_size: 16\noptimizer: adam\n"));
  EXPECT_EQ(spec.epochs, 5);
  EXPECT_EQ(spec.batch_size, 16);
  EXPECT_EQ(spec.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_EQ(spec.learning_rate.base, 0.75);
  EXPECT_EQ(spec.warmup, (std::vector<int>{1, 0}));
}

TEST(JobOptions, PathsOfAJobFileAreRelativeToIt) {
  std::string folder = testing::TempDir() + "/job-options";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/job.yaml")
      << "model: m.onnx\nloss: mse\ndata: {train: {x: a.npy, y: /abs/b.npy, z: 'shared:c.npy'}}\n";
  JobOptions options;
  options.file = folder + "/job.yaml";
  ASSERT_OK_AND_ASSIGN(JobSpec spec, Build(options));
  EXPECT_EQ(spec.model.path, folder + "/m.onnx");
  EXPECT_EQ(spec.train_columns[0].path, folder + "/a.npy");
  EXPECT_EQ(spec.train_columns[1].path, "/abs/b.npy");
  EXPECT_EQ(spec.train_columns[2].path, "shared:c.npy");
  options.settings = {{"model", "here.onnx"}};  // a flag's path is the shell's
  ASSERT_OK_AND_ASSIGN(spec, Build(options));
  EXPECT_EQ(spec.model.path, "here.onnx");
}

TEST(JobOptions, RecomputeIsAWordOrNodesOneByOne) {
  JobOptions options = Minimal();
  options.settings.emplace_back("recompute", "stage");
  ASSERT_OK_AND_ASSIGN(JobSpec spec, Build(options));
  EXPECT_EQ(spec.recompute, (RecomputeSpec{true, {}}));
  options.settings.emplace_back("recompute", "conv3");
  options.settings.emplace_back("recompute", "block*/add");
  options.settings.emplace_back("on_nonfinite", "skip");
  ASSERT_OK_AND_ASSIGN(spec, Build(options));
  EXPECT_EQ(spec.recompute, (RecomputeSpec{true, {"conv3", "block*/add"}}));
  EXPECT_EQ(spec.on_nonfinite, OnNonFinite::kSkip);
  options.settings.emplace_back("recompute", "none");
  ASSERT_OK_AND_ASSIGN(spec, Build(options));
  EXPECT_EQ(spec.recompute, RecomputeSpec());
}

class ScheduleFileOptions : public testing::Test {
 protected:
  ScheduleFileOptions() : folder_(testing::TempDir() + "/schedule_file_options") {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/mine.csv") << kTable;
    std::ofstream(folder_ + "/bad.csv") << "0F0,0B0\n1F0,what\n";
    std::ofstream(folder_ + "/job.yaml")
        << "{model: m.onnx, data: d, loss: mse, schedule_file: mine.csv}";
  }
  static constexpr char kTable[] = "0F0,0F1,,,0B0,0B1\n,1F0,1B0,1F1,1B1\n";
  const std::string folder_;
};

TEST_F(ScheduleFileOptions, ItsContentBecomesPartOfTheJob) {
  JobOptions options = Minimal();
  options.settings.emplace_back("schedule_file", folder_ + "/mine.csv");
  ASSERT_OK_AND_ASSIGN(JobSpec flag, Build(options));
  JobOptions file;
  file.file = folder_ + "/job.yaml";
  ASSERT_OK_AND_ASSIGN(JobSpec key, Build(file));
  for (const JobSpec& spec : {flag, key}) {
    EXPECT_EQ(spec.schedule, "csv");
    EXPECT_EQ(spec.schedule_table, kTable);
    EXPECT_EQ(spec.schedule_file, "");
    EXPECT_EQ(spec.microbatches, 2);
  }
}

TEST_F(ScheduleFileOptions, FlagsAndSetsTakeTheFilesPlace) {
  JobOptions options;
  options.file = folder_ + "/job.yaml";
  options.settings = {{"schedule", "1f1b"}};
  ASSERT_OK_AND_ASSIGN(JobSpec spec, Build(options));
  EXPECT_EQ(spec.schedule, "1f1b");
  EXPECT_EQ(spec.schedule_table, "");
  options.settings.clear();
  options.sets = {"schedule=gpipe"};
  ASSERT_OK_AND_ASSIGN(spec, Build(options));
  EXPECT_EQ(spec.schedule, "gpipe");
  options = Minimal();
  options.settings.insert(options.settings.begin(), {"schedule", "gpipe"});
  options.settings.emplace_back("schedule_file", folder_ + "/mine.csv");
  EXPECT_THAT(Build(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("--schedule and --schedule-file exclude")));
}

TEST_F(ScheduleFileOptions, FaultsNameTheFileAndThePlace) {
  JobOptions options = Minimal();
  options.settings.emplace_back("schedule_file", folder_ + "/bad.csv");
  EXPECT_THAT(Build(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(folder_ + "/bad.csv: schedule CSV, row 2 cell 2")));
  options.settings.back().second = folder_ + "/absent.csv";
  EXPECT_THAT(Build(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(folder_ + "/absent.csv")));
}

TEST(JobOptions, RefusesWhatMakesNoJob) {
  struct Case {
    std::function<void(JobOptions*)> spoil;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {[](JobOptions* o) {
              o->settings = {{"loss", "mse"}};
            },
            "no model"},
           {[](JobOptions* o) { o->data.clear(); }, "no data"},
           {[](JobOptions* o) { o->labels = "y.npy"; }, "not both"},
           {[](JobOptions* o) {
              o->data = {"a", "b"};
            },
            "not both"},
           {[](JobOptions* o) { o->test_data = {"file.npy"}; }, "NAME=FILE"},
           {[](JobOptions* o) { o->sets = {"epochs"}; }, "KEY=VALUE"},
           {[](JobOptions* o) { o->sets = {"=3"}; }, "KEY=VALUE"},
           {[](JobOptions* o) { o->sets = {"a..b=3"}; }, "KEY=VALUE"},
           {[](JobOptions* o) { o->sets = {"epoch=3"}; }, "epochs"},
           {[](JobOptions* o) { o->sets = {"epochs=[1"}; }, "YAML"},
           {[](JobOptions* o) { o->settings.emplace_back("epochs", "many"); }, "epochs"},
           {[](JobOptions* o) { o->settings.emplace_back("epochs", "0"); }, "epochs"},
           {[](JobOptions* o) { o->settings.emplace_back("optimizer.type", "lion"); }, "lion"},
           {[](JobOptions* o) { o->settings.emplace_back("schedule", "magic"); }, "magic"},
       }) {
    JobOptions options = Minimal();
    c.spoil(&options);
    EXPECT_THAT(Build(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.message;
  }
}

TEST(JobOptions, ScaleAndLimitsFindTheirColumns) {
  JobSpec spec;
  spec.loss = {{LossTerm::Kind::kCrossEntropy, "logits", "y", 1}};
  spec.train_columns.resize(2);
  spec.train_columns[0].name = "x";
  spec.train_columns[1].name = "y";
  spec.evaluation_columns = spec.train_columns;
  JobOptions options;
  options.scale = 0.5;
  options.limit = 100;
  options.test_limit = 10;
  ApplyColumnOptions(options, &spec);
  EXPECT_EQ(spec.train_columns[0].scale, 0.5);
  EXPECT_EQ(spec.train_columns[1].scale, 1);  // labels are not scaled
  EXPECT_EQ(spec.train_columns[0].limit, 100);
  EXPECT_EQ(spec.train_columns[1].limit, 100);
  EXPECT_EQ(spec.evaluation_columns[1].limit, 10);
  EXPECT_EQ(spec.evaluation_columns[0].scale, 0.5);
}

}  // namespace
}  // namespace pipedream
