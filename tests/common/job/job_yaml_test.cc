#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "common/job/job_schedule.h"
#include "common/job/job_spec.h"
#include "common/base/nearest_name.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(NearestNameTest, CountsEdits) {
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("opitmizer", "optimizer"), 1);  // a swap
  EXPECT_EQ(NearestName("epoch", {"data", "epochs", "loss"}), "epochs");
  EXPECT_EQ(NearestName("x", {}), "");
}

constexpr std::string_view kFull = R"(
name: lenet
model: lenet.onnx
data:
  train:
    x: {file: train.idx3, scale: 0.5, offset: 2, limit: 100}
    y: train.idx1
    t: {file: t.txt, format: text, window: 48, stride: 3, shift: 1, vocabulary: v.txt}
  test:
    x: test.idx3
    y: test.idx1
loss:
  - {output: logits, type: cross_entropy, label: y, weight: 0.25}
  - mse
  - output:aux
optimizer: {type: adamw, lr: 1e-3, momentum: 0.5, nesterov: yes, beta1: 0.8, beta2: 0.9,
            epsilon: 1e-6, weight_decay: 0.1, clip_norm: 5, schedule: step, warmup: 10, every: 7,
            gamma: 0.3, total: 99}
train: "conv*"
freeze: [fc1.*, fc2.bias]
epochs: 3
batch_size: 32
microbatches: 4
shuffle: false
seed: 18446744073709551615
ledger: false
evaluate: off
schedule: 1f1b
stages: 2
workers: 4
max_replicas: 3
warmup: [2, 0]
transport: tcp
chunks: 1
on_nonfinite: skip
recompute: [conv3, "block*/add"]
replica_lr: false
start_timeout: 10m
)";

JobSpec Full() {
  JobSpec spec;
  spec.name = "lenet";
  spec.model.path = "lenet.onnx";
  spec.train_columns.resize(3);
  spec.train_columns[0].name = "x";
  spec.train_columns[0].path = "train.idx3";
  spec.train_columns[0].scale = 0.5;
  spec.train_columns[0].offset = 2;
  spec.train_columns[0].limit = 100;
  spec.train_columns[1].name = "y";
  spec.train_columns[1].path = "train.idx1";
  spec.train_columns[2] = {"t", "t.txt", ColumnFormat::kText, 1, 0, 48, 3, 1, "v.txt", 0};
  spec.evaluation_columns.resize(2);
  spec.evaluation_columns[0].name = "x";
  spec.evaluation_columns[0].path = "test.idx3";
  spec.evaluation_columns[1].name = "y";
  spec.evaluation_columns[1].path = "test.idx1";
  spec.loss = {{LossTerm::Kind::kCrossEntropy, "logits", "y", 0.25},
               {LossTerm::Kind::kMse, "", "", 1},
               {LossTerm::Kind::kOutput, "aux", "", 1}};
  spec.optimizer = {OptimizerKind::kAdamW, 0.5, true, 0.8, 0.9, 1e-6, 0.1, 5};
  spec.learning_rate = {LrScheduleKind::kStep, 1e-3, 10, 7, 0.3, 99};
  spec.train_patterns = {"conv*"};
  spec.freeze_patterns = {"fc1.*", "fc2.bias"};
  spec.epochs = 3;
  spec.batch_size = 32;
  spec.microbatches = 4;
  spec.shuffle = false;
  spec.seed = 18446744073709551615u;
  spec.ledger = false;
  spec.evaluate = false;
  spec.schedule = "1f1b";
  spec.stages = 2;
  spec.workers = 4;
  spec.max_replicas = 3;
  spec.warmup = {2, 0};
  spec.transport = "tcp";
  spec.chunks = 1;
  spec.on_nonfinite = OnNonFinite::kSkip;
  spec.recompute = {true, {"conv3", "block*/add"}};
  spec.replica_lr = false;
  spec.start_timeout_s = 600;
  return spec;
}

TEST(JobYamlTest, ReadsEveryField) {
  ASSERT_OK_AND_ASSIGN(JobSpec spec, ParseJobYaml(kFull, "job.yaml"));
  EXPECT_EQ(spec, Full());
}

TEST(JobYamlTest, FormatIsReadBackAsTheSameJob) {
  for (JobSpec spec : {JobSpec{}, Full()}) {
    if (spec.loss.empty()) spec.data_folder = "data: with 'odd' #characters";
    spec.learning_rate.base = 0.1;
    spec.name = "true";
    const std::string text = FormatJobYaml(spec);
    absl::StatusOr<JobSpec> again = ParseJobYaml(text, "again");
    ASSERT_OK(again);
    EXPECT_EQ(*again, spec) << text;
    EXPECT_THAT(text, HasSubstr("lr: 0.1\n"));
  }
}

TEST(JobYamlTest, RecomputeIsAWordOrAList) {
  const std::pair<const char*, RecomputeSpec> cases[] = {
      {"recompute: none", {}},
      {"recompute: stage", {true, {}}},
      {"recompute: [none]", {true, {"none"}}},
  };
  for (const auto& [text, want] : cases) {
    ASSERT_OK_AND_ASSIGN(JobSpec spec, ParseJobYaml(text, "j.yaml"));
    EXPECT_EQ(spec.recompute, want) << text;
    ASSERT_OK_AND_ASSIGN(JobSpec again, ParseJobYaml(FormatJobYaml(spec), "again"));
    EXPECT_EQ(again, spec) << text;
  }
}

constexpr std::string_view kForwardDoubling =
    "schedule forward_doubling policy=flush replicas=1,1 microbatches=2\n"
    "s0.r0: F0 F1 B0 B1\n"
    "s1.r0: F0 B0 F1 B1\n";

TEST(JobYamlTest, AScheduleOfOnesOwnNamesItselfAndSaysTheMicrobatches) {
  ASSERT_OK_AND_ASSIGN(
      JobSpec spec,
      ParseJobYaml("model: m.onnx\nschedule_table: |\n"
                   "  schedule forward_doubling policy=flush replicas=1,1 microbatches=2\n"
                   "  s0.r0: F0 F1 B0 B1\n"
                   "  s1.r0: F0 B0 F1 B1\n",
                   "j.yaml"));
  EXPECT_EQ(spec.schedule, "forward_doubling");
  EXPECT_EQ(spec.schedule_table, kForwardDoubling);
  EXPECT_EQ(spec.microbatches, 2);
  ASSERT_OK_AND_ASSIGN(JobSpec file, ParseJobYaml("schedule_file: tables/mine.csv", "j.yaml"));
  EXPECT_EQ(file.schedule_file, "tables/mine.csv");
  EXPECT_EQ(file.schedule_table, "");
}

TEST(JobYamlTest, TablesOfAnyFormAreReadBackAsTheyWere) {
  for (const std::string_view text :
       {kForwardDoubling.data(), "0F0,0B0\n", "0F0,0B0", "0F0,0B0\n\n", "  0F0,0B0\r\n",
        "\t\n0F0,,0B0\n", "\"0F0\",\"0B0\"\n", "0F0,,,1F0,1B0,0B0\n"}) {
    JobSpec spec;
    ASSERT_OK(SetScheduleTable(std::string(text), "text", &spec));
    ASSERT_OK_AND_ASSIGN(JobSpec again, ParseJobYaml(FormatJobYaml(spec), "again"));
    EXPECT_EQ(again, spec) << FormatJobYaml(spec);
  }
}

TEST(JobYamlTest, AbsentKeysKeepTheirDefaults) {
  ASSERT_OK_AND_ASSIGN(
      JobSpec spec, ParseJobYaml("{model: m.onnx, data: folder, loss: mse, optimizer: adam}", "j"));
  JobSpec want;
  want.model.path = "m.onnx";
  want.data_folder = "folder";
  want.loss = {{LossTerm::Kind::kMse, "", "", 1}};
  want.optimizer.kind = OptimizerKind::kAdam;
  EXPECT_EQ(spec, want);
}

TEST(JobYamlTest, NamesLineFieldAndRemedyOfEveryFault) {
  struct Case {
    std::string text, message;
  };
  const std::vector<Case> cases = {
      {"model: a\nepoch: 3\n", "j.yaml:2: epoch: unknown key; did you mean 'epochs'?"},
      {"model: a\noptimizer:\n  type: sgd\n  momentun: 0.9\n",
       "j.yaml:4: optimizer.momentun: unknown key; did you mean 'momentum'?"},
      {"data:\n  train:\n    x: {fil: a}\n",
       "j.yaml:3: data.train.x.fil: unknown key; did you mean 'file'?"},
      {"data: {valid: {x: a}}", "data.valid: unknown key"},
      {"recompute: conv3", "j.yaml:1: recompute: 'conv3' is unknown; did you mean"},
      {"recompute: []", "j.yaml:1: recompute: is an empty list; say stage"},
      {"recompute: {a: b}", "recompute: must be none, stage or a list of node names"},
      {"on_nonfinite: ignore", "j.yaml:1: on_nonfinite: 'ignore' is unknown"},
      {"model: a\nschedule: 1f1b\nschedule_file: b.csv",
       "j.yaml:2: schedule: schedule, schedule_file and schedule_table exclude each other"},
      {"model: a\nschedule_table: \"0F0,0F0\"", "j.yaml:2: schedule_table: schedule: "},
      {"epochs: many", "j.yaml:1: epochs: 'many' is not a whole number"},
      {"epochs: 3.5", "epochs: '3.5' is not a whole number"},
      {"epochs: 99999999999999999999", "epochs: '99999999999999999999' is not a whole number"},
      {"seed: -1", "seed: '-1' is not a whole number from 0"},
      {"epochs: [1]", "epochs: must be a single value"},
      {"epochs:", "epochs: has no value"},
      {"optimizer: {lr: fast}", "optimizer.lr: 'fast' is not a number"},
      {"shuffle: perhaps", "shuffle: 'perhaps' is neither true nor false"},
      {"optimizer: sdg", "optimizer: 'sdg' is unknown; did you mean 'sgd'?"},
      {"optimizer: {schedule: cosin}",
       "optimizer.schedule: 'cosin' is unknown; did you mean 'cosine'?"},
      {"loss: cross-entropy", "loss: 'cross-entropy' is unknown; did you mean 'cross_entropy'?"},
      {"loss: output", "loss: 'output' needs the name"},
      {"loss: [{label: y}]", "loss[0]: has no type"},
      {"loss: [mse, {type: mse, wieght: 2}]",
       "loss[1].wieght: unknown key; did you mean 'weight'?"},
      {"warmup: 3", "warmup: must be a list"},
      {"warmup: [1, x]", "warmup[1]: 'x' is not a whole number"},
      {"start_timeout: soon", "start_timeout: 'soon' is not a duration"},
      {"data: [a, b]", "data: must be a map"},
      {"data: {train: a.npy}", "data.train: must be a map"},
      {"data: {train: {x: {file: a, format: csv}}}", "data.train.x.format: 'csv' is unknown"},
      {"epochs: 1\nepochs: 2", "j.yaml:2: epochs: is given twice"},
      {"- a", "must be a map"},
      {"just text", "must be a map"},
      {"", "holds 0 YAML documents"},
      {"a: 1\n---\nb: 2", "holds 2 YAML documents"},
      {"a: [1", "not valid YAML"},
      {"? [a, b]\n: 1", "must be a single value"},
      {std::string(5 << 20, 'a'), "too long"},
      {std::string(100000, '['), "not valid YAML"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 80));
    EXPECT_THAT(ParseJobYaml(c.text, "j.yaml").status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(JobYamlTest, TheExampleAndTheDocumentedJobAreValid) {
  const auto read = [](const std::string& path) {
    std::ifstream file(std::string(PIPEDREAM_SOURCE_DIR) + path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  ASSERT_OK_AND_ASSIGN(JobSpec example,
                       ParseJobYaml(read("/examples/lenet-fashion.yaml"), "example"));
  EXPECT_OK(Validate(example));
  const std::string document = read("/docs/job-file.md");
  const size_t begin = document.find("```yaml\n") + 8;
  const std::string block = document.substr(begin, document.find("```\n", begin) - begin);
  ASSERT_OK_AND_ASSIGN(JobSpec documented, ParseJobYaml(block, "docs/job-file.md"));
  EXPECT_OK(Validate(documented));
}

}  // namespace
}  // namespace pipedream
