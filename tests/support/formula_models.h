// One multilayer perceptron twice: as ONNX model and data files that the engine trains, and as the
// values that the formula oracle trains.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/graph/model.h"
#include "common/job/job_spec.h"
#include "common/job/run_shape.h"
#include "tests/support/formula_oracle.h"

namespace pipedream {

struct FormulaJobOptions {
  std::vector<int64_t> sizes = {6, 9, 8, 7, 8, 7, 5};  // of the input, then of each layer's output
  FormulaLoss loss = FormulaLoss::kCrossEntropy;
  int64_t train_samples = 37;
  int64_t evaluation_samples = 11;
  uint64_t seed = 1;  // of weights and data
  // The first input of this training row is this instead; -1: of none.
  int64_t broken_row = -1;
  float broken_value = 0;
};

// Fully connected layers with tanh between them, Gemm and Tanh nodes in ONNX; parameters
// "layer<l>.weight" [outputs, inputs] and "layer<l>.bias", input "x", output "y_hat", label or
// target "y". Files live in a temporary folder until destruction.
class FormulaJob {
 public:
  explicit FormulaJob(const FormulaJobOptions& options = {});
  ~FormulaJob();
  FormulaJob(const FormulaJob&) = delete;
  FormulaJob& operator=(const FormulaJob&) = delete;

  const std::string& folder() const { return folder_; }
  std::string model_path() const { return folder_ + "/model.onnx"; }
  const std::shared_ptr<const Model>& model() const { return model_; }
  const std::shared_ptr<const Dataset>& train() const { return train_; }
  const std::shared_ptr<const Dataset>& evaluation() const { return evaluation_; }
  int layer_count() const { return static_cast<int>(options_.sizes.size()) - 1; }

  // The loss of the options, everything else as JobSpec has it.
  JobSpec Spec() const;
  // The stage of each forward node of the training graph when layer l is in stage layer_stage[l];
  // the loss is in the last layer's. REQUIRES: layer_stage does not fall.
  std::vector<int> StageOfNodes(const std::vector<int>& layer_stage) const;

  // The same for the oracle: layers, loss and training data; the rest is left to the caller.
  FormulaRun Run(const std::vector<int>& layer_stage) const;
  const FormulaData& evaluation_data() const { return evaluation_data_; }

 private:
  std::shared_ptr<const Dataset> WriteSplit(const std::string& split, int64_t samples,
                                            FormulaData* data) const;
  void WriteModel() const;

  FormulaJobOptions options_;
  std::string folder_;
  std::vector<FormulaLayer> layers_;
  FormulaData train_data_;
  FormulaData evaluation_data_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> evaluation_;
};

std::string FormulaWeightName(int layer);
std::string FormulaBiasName(int layer);

FormulaOptimizer FormulaOptimizerOf(const OptimizerSpec& spec);
// Learning rate of update k of a schedule that counts minibatches, by the formulas of
// docs/training.md.
double FormulaRate(const LrSchedule& schedule, int64_t k);
// Rows of every microbatch of the run in order: minibatches of batch_size consecutive samples of
// the epoch's order, each in `microbatches` parts of ceil(batch_size / microbatches).
std::vector<std::vector<int64_t>> FormulaUnits(const RunShape& run);
// `units_per_update` consecutive units an update, the last one with what is left.
std::vector<FormulaUpdate> FormulaUpdates(int64_t units, int64_t units_per_update);

}  // namespace pipedream
