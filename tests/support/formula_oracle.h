// What a pipeline schedule must compute, by formula: a multilayer perceptron trained unit by unit
// in double precision, where a function of (stage, unit) names the weight version that each stage
// uses. Written from the formulas of docs/training.md by plain loops, apart from the engine, its
// kernels and its schedules: what they are checked against.
//
// Version v of a stage is its weights after v updates. Whatever version produced a gradient, it is
// applied to the stage's newest weights, and so are momentum, moments and weight decay.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/support/formula_network.h"

namespace pipedream {

struct FormulaOptimizer {
  enum class Kind { kSgd, kAdam, kAdamW };
  Kind kind = Kind::kSgd;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;  // 0: never
};

// Units [first_unit, first_unit + units).
struct FormulaUpdate {
  int64_t first_unit = 0;
  int64_t units = 0;
};

struct FormulaRun {
  std::vector<FormulaLayer> layers;
  FormulaLoss loss = FormulaLoss::kCrossEntropy;
  FormulaData data;
  // Rows of each unit (microbatch), in the order of training. A unit may be empty: it has no loss
  // and no gradient.
  std::vector<std::vector<int64_t>> units;
  // Per stage; update k makes version k + 1. Its gradient is the mean of its units' gradients,
  // weighted by their rows; without any row the version is a copy and the optimizer does not step.
  std::vector<std::vector<FormulaUpdate>> updates;
  // Version of `stage` that the forward of `unit` reads. The backward runs on the forward's
  // activations with the version given by `backward_version`, or with the forward's if that is
  // empty.
  std::function<int64_t(int stage, int64_t unit)> forward_version;
  std::function<int64_t(int stage, int64_t unit)> backward_version;
  FormulaOptimizer optimizer;
  std::function<double(int stage, int64_t update)> learning_rate;
  // Clipping scales the gradient of update k of a stage by min(1, c / (|g| + 1e-6)), where |g| is
  // norm number norm_of(stage, k); not at all if that is negative, or |g| not finite. A norm is
  // over all stages together, each with the gradient of its update norm_update(stage, norm). Empty:
  // k's own norm; the update of the norm's number.
  std::function<int64_t(int stage, int64_t update)> norm_of;
  std::function<int64_t(int stage, int64_t norm)> norm_update;
  // An update whose gradient is not finite in any stage, or in the stage itself: the version is a
  // copy, and the optimizer has not seen it.
  enum class Skip { kNever, kInAllStages, kInThatStage };
  Skip skip = Skip::kNever;
};

struct FormulaResult {
  std::vector<double> losses;  // of each unit, in its forward; 0 for empty ones
  // versions[layer][v]: the layer's weights after v updates of its stage; the last one is final.
  std::vector<std::vector<FormulaWeights>> versions;
};

// A unit sees the updates whose units all come before it, if the norm that they look at is complete
// then. kInvalidArgument: sizes that do not fit, rows or labels out of range, a unit that is not in
// exactly one update of every stage, a version that does not exist yet, updates that differ among
// the stages of a run that looks at norms without a norm_update. REQUIRES: norms are of updates
// that there are.
absl::StatusOr<FormulaResult> TrainByFormula(const FormulaRun& run);

}  // namespace pipedream
