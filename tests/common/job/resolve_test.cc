#include "common/job/resolve.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

// A model whose outputs have the given sample shapes and are computed by nobody.
class FakeModel : public Model {
 public:
  FakeModel(std::vector<ModelInput> inputs, std::vector<std::pair<std::string, Shape>> outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
    for (const auto& [name, shape] : outputs_) names_.push_back(name);
  }
  absl::StatusOr<Graph> Bind(const BindOptions& options) const override {
    GraphBuilder builder;
    for (const auto& [name, shape] : outputs_) {
      std::vector<int64_t> dims = shape.dims();
      if (name != "scalar") dims.insert(dims.begin(), options.batch);
      builder.AddOutput(builder.AddInput(name, DataType::kFloat32, Shape(dims)));
    }
    return std::move(builder).Build();
  }
  const std::vector<ModelInput>& inputs() const override { return inputs_; }
  const std::vector<std::string>& output_names() const override { return names_; }
  const std::vector<std::string>& warnings() const override { return none_; }
  const std::string& content_hash() const override { return hash_; }
  absl::Status Export(const std::map<std::string, Tensor>&, const std::string&) const override {
    return absl::OkStatus();
  }

 private:
  const std::vector<ModelInput> inputs_;
  const std::vector<std::pair<std::string, Shape>> outputs_;
  std::vector<std::string> names_;
  const std::vector<std::string> none_;
  const std::string hash_;
};

ModelInput Image() { return {"x", DataType::kFloat32, Shape{1, 28, 28}}; }
FakeModel Classifier() { return {{Image()}, {{"logits", Shape{10}}}}; }
FakeModel TwoHeads() {
  return {{Image()}, {{"logits", Shape{48, 75}}, {"value", Shape{3}}, {"scalar", Shape{}}}};
}

JobSpec Job(const std::vector<std::string>& columns) {
  JobSpec spec;
  spec.loss.resize(1);
  for (const std::string& name : columns) {
    spec.train_columns.emplace_back();
    spec.train_columns.back().name = name;
    spec.train_columns.back().path = name + ".npy";
  }
  return spec;
}

TEST(ResolveTest, FillsTheOnlyOutputAndTheOnlyLabel) {
  ASSERT_OK_AND_ASSIGN(JobSpec spec, ResolveAgainstModel(Job({"x", "target"}), Classifier()));
  EXPECT_EQ(spec.loss[0].output, "logits");
  EXPECT_EQ(spec.loss[0].label, "target");
  ASSERT_OK_AND_ASSIGN(auto wanted, Requirements(spec, Classifier()));
  ASSERT_EQ(wanted.size(), 2u);
  EXPECT_EQ(wanted[0].name, "x");
  EXPECT_EQ(wanted[0].sample_shape, (Shape{1, 28, 28}));
  EXPECT_EQ(wanted[1].name, "target");
  EXPECT_EQ(wanted[1].dtype, DataType::kInt64);
  EXPECT_EQ(wanted[1].sample_shape, Shape{});
  EXPECT_EQ(wanted[1].classes, 10);
}

TEST(ResolveTest, ServesSeveralTerms) {
  JobSpec job = Job({"x", "a", "b"});
  job.loss = {{LossTerm::Kind::kCrossEntropy, "logits", "a", 1},
              {LossTerm::Kind::kMse, "value", "b", 1},
              {LossTerm::Kind::kOutput, "scalar", "", 1}};
  ASSERT_OK_AND_ASSIGN(JobSpec spec, ResolveAgainstModel(job, TwoHeads()));
  EXPECT_EQ(spec.loss, job.loss);
  ASSERT_OK_AND_ASSIGN(auto wanted, Requirements(spec, TwoHeads()));
  ASSERT_EQ(wanted.size(), 3u);
  EXPECT_EQ(wanted[1].sample_shape, (Shape{48}));
  EXPECT_EQ(wanted[1].classes, 75);
  EXPECT_EQ(wanted[2].dtype, DataType::kFloat32);
  EXPECT_EQ(wanted[2].sample_shape, (Shape{3}));
  EXPECT_EQ(wanted[2].classes, 0);
}

TEST(ResolveTest, RefusesWhatIsAmbiguousOrUnknown) {
  const auto resolve = [](JobSpec job, const Model& model) {
    return ResolveAgainstModel(std::move(job), model).status();
  };
  const auto refused = [](const std::string& message) {
    return StatusIs(StatusCode::kInvalidArgument, HasSubstr(message));
  };
  EXPECT_THAT(resolve(Job({"x", "y"}), TwoHeads()),
              refused("loss.output: the model has 3 outputs"));
  EXPECT_THAT(resolve(Job({"x"}), Classifier()), refused("loss.label: 0 columns"));
  EXPECT_THAT(resolve(Job({"x", "y", "z"}), Classifier()), refused("(y, z)"));
  EXPECT_THAT(resolve(Job({"y"}), Classifier()), refused("data.train: no file for 'x'"));
  // Not "two columns could be the labels".
  EXPECT_THAT(resolve(Job({"image", "y"}), Classifier()),
              refused("data.train: no file for 'x', an input of the model; given: image, y"));
  JobSpec job = Job({"x", "y", "z"});
  job.loss[0].label = "y";
  EXPECT_THAT(resolve(job, Classifier()), refused("data.train.z: is neither"));
  job = Job({"x", "y"});
  job.evaluation_columns = Job({"x"}).train_columns;
  EXPECT_THAT(resolve(job, Classifier()), refused("data.test: no file for 'y'"));
  job = Job({"x", "y"});
  job.loss[0].output = "logit";
  EXPECT_THAT(resolve(job, Classifier()), refused("did you mean 'logits'?"));
  job.loss[0] = {LossTerm::Kind::kMse, "", "x", 1};
  EXPECT_THAT(resolve(job, Classifier()), refused("'x' is an input of the model"));
  job.loss[0] = {LossTerm::Kind::kMse, "scalar", "y", 1};
  EXPECT_THAT(resolve(job, TwoHeads()), refused("'scalar' has shape []"));
  job.loss = {{LossTerm::Kind::kCrossEntropy, "logits", "y", 1},
              {LossTerm::Kind::kMse, "value", "y", 1}};
  EXPECT_THAT(resolve(job, TwoHeads()), refused("loss[1].label: 'y' must be float32 [3] here"));
}

TEST(ResolveTest, AFolderBecomesColumns) {
  const std::string folder = testing::TempDir() + "/resolve_folder";
  std::filesystem::create_directories(folder);
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"})
    std::ofstream(folder + "/" + name) << "";
  JobSpec job = Job({});
  job.data_folder = folder;
  ASSERT_OK_AND_ASSIGN(JobSpec spec, ResolveAgainstModel(job, Classifier()));
  ASSERT_EQ(spec.train_columns.size(), 2u);
  EXPECT_EQ(spec.train_columns[1].name, "y");
  EXPECT_TRUE(spec.evaluation_columns.empty());
  EXPECT_EQ(spec.data_folder, "");
  std::filesystem::remove_all(folder);
  EXPECT_THAT(ResolveAgainstModel(job, Classifier()).status(),
              StatusIs(StatusCode::kNotFound, HasSubstr("no such folder")));
}

TEST(ResolveTest, CosineEndsWithTheRun) {
  RunShape run;
  run.train_samples = 95;
  run.batch_size = 10;
  run.epochs = 3;
  LrSchedule cosine;
  cosine.kind = LrScheduleKind::kCosine;
  EXPECT_EQ(ResolveSchedule(cosine, run).total, 30);
  cosine.total = 7;
  EXPECT_EQ(ResolveSchedule(cosine, run).total, 7);
  EXPECT_EQ(ResolveSchedule(LrSchedule{}, run).total, 0);
}

}  // namespace
}  // namespace pipedream
