// A small network and data set on disk, and jobs over them, for tests that train.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/graph/model.h"
#include "common/job/job_spec.h"
#include "common/job/run_shape.h"
#include "tests/support/npy_file.h"

namespace pipedream {

struct SmallJobOptions {
  bool batch_norm = true;
  bool dropout = true;
  int64_t train_samples = 37;
  int64_t evaluation_samples = 11;
  int64_t infinite_sample = -1;  // one of the training data whose pixels are too large to train on
};

// Conv, (BatchNorm), ReLU, MaxPool, Conv, ReLU, Flatten, (Dropout), Linear, ReLU, Linear on 1x8x8
// images in 5 classes. Files live in a temporary folder until destruction.
class SmallJob {
 public:
  explicit SmallJob(const SmallJobOptions& options = {});
  ~SmallJob();
  SmallJob(const SmallJob&) = delete;
  SmallJob& operator=(const SmallJob&) = delete;

  const std::string& folder() const { return folder_; }
  std::string model_path() const { return folder_ + "/model.onnx"; }
  const std::shared_ptr<const Model>& model() const { return model_; }
  const std::shared_ptr<const Dataset>& train() const { return train_; }
  const std::shared_ptr<const Dataset>& evaluation() const { return evaluation_; }
  // SGD with momentum, cross entropy of "logits" against "y".
  JobSpec Spec() const;
  // Forward nodes of the training graph, spread evenly over `stages`.
  std::vector<int> EvenStages(int stages) const;

 private:
  std::string folder_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> evaluation_;
};

}  // namespace pipedream
