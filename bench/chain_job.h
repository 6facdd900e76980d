// A job whose stages can be made equal: a chain of equal convolutions, its file and data in a
// temporary folder.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/graph/model.h"
#include "common/job/job_spec.h"

namespace pipedream {

struct ChainOptions {
  int64_t channels = 8;
  int64_t size = 16;  // images of channels x size x size
  int64_t samples = 0;
};

class ChainJob {
 public:
  static constexpr int kConvolutions = 8;

  static absl::StatusOr<std::unique_ptr<ChainJob>> Create(const ChainOptions& options);
  ~ChainJob();
  ChainJob(const ChainJob&) = delete;
  ChainJob& operator=(const ChainJob&) = delete;

  const std::shared_ptr<const Model>& model() const { return model_; }
  const std::shared_ptr<const Dataset>& data() const { return data_; }
  // One epoch, SGD with momentum; batch, microbatches and schedule are the caller's.
  JobSpec Spec() const;
  // By forward node of the training graph: equally many convolutions in each of the stages, with
  // what follows them. REQUIRES: `stages` divides kConvolutions.
  absl::StatusOr<std::vector<int>> EvenStages(int stages) const;

 private:
  ChainJob() = default;

  std::string folder_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Dataset> data_;
};

}  // namespace pipedream
