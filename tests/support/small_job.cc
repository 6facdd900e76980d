#include "tests/support/small_job.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/graph/training_graph.h"
#include "examples/models/onnx_writer.h"

namespace pipedream {
namespace {

constexpr int64_t kSmallJobClasses = 5;
constexpr int64_t kPixels = 64;

// Noise around one random image per class.
void WriteSplit(const std::string& folder, const std::string& split, int64_t samples, uint64_t seed,
                int64_t infinite = -1) {
  std::vector<float> x(samples * kPixels);
  std::vector<int64_t> y(samples);
  for (int64_t i = 0; i < samples; ++i) {
    y[i] = Philox(seed, 1, i)[0] % kSmallJobClasses;
    for (int64_t k = 0; k < kPixels; ++k)
      x[i * kPixels + k] = UniformFloat(Philox(7, 2, y[i] * kPixels + k)[0]) +
                           0.5f * UniformFloat(Philox(seed, 3, i * kPixels + k)[0]);
  }
  if (infinite >= 0) {
    std::fill_n(x.begin() + infinite * kPixels, kPixels, std::numeric_limits<float>::infinity());
  }
  WriteNpy(folder + "/" + split + "-x.npy", "<f4", fmt::format("({}, 1, 8, 8)", samples), x.data(),
           x.size() * sizeof(float));
  WriteNpy(folder + "/" + split + "-y.npy", "<i8", fmt::format("({},)", samples), y.data(),
           y.size() * sizeof(int64_t));
}

std::shared_ptr<const Dataset> OpenSplit(const std::string& folder, const std::string& split) {
  std::vector<ColumnSpec> columns(2);
  columns[0].name = "x";
  columns[0].path = folder + "/" + split + "-x.npy";
  columns[1].name = "y";
  columns[1].path = folder + "/" + split + "-y.npy";
  auto dataset = Dataset::Open(columns, {{"x", DataType::kFloat32, Shape{1, 8, 8}, 0},
                                         {"y", DataType::kInt64, Shape{}, kSmallJobClasses}});
  PIPEDREAM_CHECK(dataset.ok());
  return *dataset;
}

void WriteModel(const SmallJobOptions& options, const std::string& path) {
  OnnxWriter w("small", {1, 8, 8}, 3);
  std::string x = w.Conv("conv1", "x", 1, 4, 3, 1, 1, true);
  if (options.batch_norm) x = w.BatchNorm("bn1", x, 4);
  x = w.MaxPool("pool1", w.Relu("relu1", x), 2, 2, 0);
  x = w.Relu("relu2", w.Conv("conv2", x, 4, 6, 3, 1, 1, true));
  x = w.Flatten("flatten", x);
  if (options.dropout) x = w.Dropout("drop", x, 0.25f);
  x = w.Relu("relu3", w.Linear("fc1", x, 96, 12));
  PIPEDREAM_CHECK(w.Write(w.Linear("fc2", x, 12, kSmallJobClasses), kSmallJobClasses, path));
}

}  // namespace

SmallJob::SmallJob(const SmallJobOptions& options) {
  folder_ = (std::filesystem::temp_directory_path() / "small-job-XXXXXX").string();
  PIPEDREAM_CHECK(mkdtemp(folder_.data()) != nullptr);
  WriteModel(options, model_path());
  WriteSplit(folder_, "train", options.train_samples, 11, options.infinite_sample);
  WriteSplit(folder_, "test", options.evaluation_samples, 12);
  auto model = Model::Load(model_path());
  PIPEDREAM_CHECK(model.ok());
  model_ = *model;
  train_ = OpenSplit(folder_, "train");
  evaluation_ = OpenSplit(folder_, "test");
}

SmallJob::~SmallJob() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

JobSpec SmallJob::Spec() const {
  JobSpec spec;
  LossTerm term;
  term.output = "logits";
  term.label = "y";
  spec.loss = {term};
  spec.optimizer.momentum = 0.9;
  spec.learning_rate.base = 0.05;
  spec.batch_size = 8;
  spec.epochs = 2;
  spec.seed = 5;
  return spec;
}

std::vector<int> SmallJob::EvenStages(int stages) const {
  auto forward = model_->Bind({2, GraphForm::kTraining, {}, {}});
  PIPEDREAM_CHECK(forward.ok());
  auto training = MakeTrainingGraph(*forward, Spec().loss);
  PIPEDREAM_CHECK(training.ok());
  std::vector<int> out;
  for (int n = 0; n < training->forward_nodes; ++n)
    out.push_back(n * stages / training->forward_nodes);
  return out;
}

}  // namespace pipedream
