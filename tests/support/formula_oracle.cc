#include "tests/support/formula_oracle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"

namespace pipedream {
namespace {

using Values = std::vector<double>;

FormulaWeights ZerosLike(const FormulaLayer& layer) {
  return {Values(layer.outputs * layer.inputs, 0.0), Values(layer.outputs, 0.0)};
}

double SquaredNorm(const FormulaWeights& w) {
  double sum = 0;
  for (double v : w.weight) sum += v * v;
  for (double v : w.bias) sum += v * v;
  return sum;
}

// One optimizer step of one tensor; `a` is the momentum or first moment, `b` the second moment.
void StepTensor(const FormulaOptimizer& optimizer, double rate, int64_t t, const Values& gradient,
                Values* w, Values* a, Values* b) {
  for (size_t i = 0; i < w->size(); ++i) {
    double& weight = (*w)[i];
    double d = gradient[i];
    if (optimizer.kind == FormulaOptimizer::Kind::kAdamW)
      weight *= 1 - rate * optimizer.weight_decay;
    else
      d += optimizer.weight_decay * weight;
    if (optimizer.kind == FormulaOptimizer::Kind::kSgd) {
      double& v = (*a)[i];
      v = optimizer.momentum * v + d;
      weight -= rate * (optimizer.nesterov ? d + optimizer.momentum * v : v);
      continue;
    }
    double& first = (*a)[i];
    double& second = (*b)[i];
    first = optimizer.beta1 * first + (1 - optimizer.beta1) * d;
    second = optimizer.beta2 * second + (1 - optimizer.beta2) * d * d;
    const double mean = first / (1 - std::pow(optimizer.beta1, t));
    const double variance = second / (1 - std::pow(optimizer.beta2, t));
    weight -= rate * mean / (std::sqrt(variance) + optimizer.epsilon);
  }
}

// An update's gradient as it comes together.
struct Pending {
  int64_t missing = 0;  // units whose backward has not run
  int64_t rows = 0;     // of all its units
  double squared_norm = 0;
  std::vector<FormulaWeights> gradient;  // per layer of the stage
};

struct Stage {
  std::vector<size_t> layers;
  std::vector<int64_t> update_of;  // per unit
  std::vector<Pending> updates;
  int64_t made = 0;   // updates, so the newest version
  int64_t steps = 0;  // updates that had rows
};

class Trainer {
 public:
  explicit Trainer(const FormulaRun& run) : run_(run) {}

  absl::StatusOr<FormulaResult> Train() {
    PD_RETURN_IF_ERROR(CheckSizes());
    PD_RETURN_IF_ERROR(CheckUnits());
    PD_RETURN_IF_ERROR(BuildStages());
    result_.losses.assign(run_.units.size(), 0.0);
    for (const FormulaLayer& layer : run_.layers) {
      result_.versions.push_back({layer.initial});
      momentum_.push_back(ZerosLike(layer));
      variance_.push_back(ZerosLike(layer));
    }
    for (size_t u = 0; u < run_.units.size(); ++u) {
      MakeUpdates();
      if (!run_.units[u].empty()) PD_RETURN_IF_ERROR(RunUnit(u));
      for (Stage& stage : stages_) Finish(stage.updates[stage.update_of[u]]);
    }
    MakeUpdates();
    return std::move(result_);
  }

 private:
  absl::Status CheckSizes() const {
    if (run_.layers.empty()) return InvalidArgument("layers: expected at least one");
    for (size_t l = 0; l < run_.layers.size(); ++l) {
      const FormulaLayer& layer = run_.layers[l];
      if (l > 0 && layer.inputs != run_.layers[l - 1].outputs)
        return InvalidArgument("layer {}: {} inputs after {} outputs", l, layer.inputs,
                               run_.layers[l - 1].outputs);
      if (std::ssize(layer.initial.weight) != layer.inputs * layer.outputs ||
          std::ssize(layer.initial.bias) != layer.outputs)
        return InvalidArgument("layer {}: {} weights and {} biases, expected {} x {} and {}", l,
                               layer.initial.weight.size(), layer.initial.bias.size(),
                               layer.outputs, layer.inputs, layer.outputs);
      if (layer.stage < 0 || layer.stage >= std::ssize(run_.updates))
        return InvalidArgument("layer {}: stage {} of {}", l, layer.stage, run_.updates.size());
    }
    return absl::OkStatus();
  }

  absl::Status CheckUnits() const {
    const int64_t outputs = run_.layers.back().outputs;
    const int64_t rows = std::ssize(run_.data.x) / run_.layers[0].inputs;
    const bool labelled = run_.loss == FormulaLoss::kCrossEntropy;
    if (labelled ? std::ssize(run_.data.labels) != rows
                 : std::ssize(run_.data.targets) != rows * outputs)
      return InvalidArgument("data: {} rows, but {} labels and {} targets", rows,
                             run_.data.labels.size(), run_.data.targets.size());
    for (size_t u = 0; u < run_.units.size(); ++u) {
      for (int64_t row : run_.units[u]) {
        if (row < 0 || row >= rows) return InvalidArgument("unit {}: row {} of {}", u, row, rows);
        if (labelled && (run_.data.labels[row] < 0 || run_.data.labels[row] >= outputs))
          return InvalidArgument("row {}: label {} of {}", row, run_.data.labels[row], outputs);
      }
    }
    return absl::OkStatus();
  }

  absl::Status BuildStages() {
    const int64_t units = std::ssize(run_.units);
    for (const std::vector<FormulaUpdate>& updates : run_.updates) {
      Stage& stage = stages_.emplace_back();
      stage.update_of.assign(units, -1);
      for (size_t k = 0; k < updates.size(); ++k) {
        Pending& pending = stage.updates.emplace_back();
        pending.missing = updates[k].units;
        for (int64_t u = updates[k].first_unit; u < updates[k].first_unit + updates[k].units; ++u) {
          if (u < 0 || u >= units || stage.update_of[u] >= 0)
            return InvalidArgument("stage {} update {}: unit {} of {} is not there, or taken",
                                   stages_.size() - 1, k, u, units);
          stage.update_of[u] = static_cast<int64_t>(k);
          pending.rows += std::ssize(run_.units[u]);
        }
      }
      const auto left = std::find(stage.update_of.begin(), stage.update_of.end(), -1);
      if (left != stage.update_of.end())
        return InvalidArgument("stage {}: unit {} is in no update", stages_.size() - 1,
                               left - stage.update_of.begin());
      if (LooksAtNorms() && !run_.norm_update && stage.update_of != stages_[0].update_of)
        return InvalidArgument("stage {}: clipping needs the same updates in every stage",
                               stages_.size() - 1);
    }
    for (size_t l = 0; l < run_.layers.size(); ++l)
      stages_[run_.layers[l].stage].layers.push_back(l);
    return absl::OkStatus();
  }

  absl::StatusOr<const FormulaWeights*> Read(
      size_t layer, size_t unit, const std::function<int64_t(int, int64_t)>& rule) const {
    const int stage = run_.layers[layer].stage;
    const int64_t version = rule(stage, static_cast<int64_t>(unit));
    if (version < 0 || version > stages_[stage].made)
      return InvalidArgument("stage {}: unit {} reads version {}, the newest is {}", stage, unit,
                             version, stages_[stage].made);
    return &result_.versions[layer][version];
  }

  absl::Status RunUnit(size_t unit) {
    const std::vector<int64_t>& rows = run_.units[unit];
    std::vector<Values> values = {FormulaRows(run_.data.x, run_.layers[0].inputs, rows)};
    for (size_t l = 0; l < run_.layers.size(); ++l) {
      PD_ASSIGN_OR_RETURN(const FormulaWeights* w, Read(l, unit, run_.forward_version));
      values.push_back(FormulaForward(run_.layers[l], *w, values[l], std::ssize(rows)));
    }
    FormulaLossValue loss =
        FormulaLossOf(run_.loss, values.back(), run_.layers.back().outputs, run_.data, rows);
    result_.losses[unit] = loss.loss;
    Values gradient = std::move(loss.gradient);
    const auto& rule = run_.backward_version ? run_.backward_version : run_.forward_version;
    for (size_t l = run_.layers.size(); l-- > 0;) {
      PD_ASSIGN_OR_RETURN(const FormulaWeights* w, Read(l, unit, rule));
      Stage& stage = stages_[run_.layers[l].stage];
      Pending& pending = stage.updates[stage.update_of[unit]];
      if (pending.gradient.empty())
        for (size_t own : stage.layers) pending.gradient.push_back(ZerosLike(run_.layers[own]));
      const auto own = std::find(stage.layers.begin(), stage.layers.end(), l);
      const double share = static_cast<double>(rows.size()) / static_cast<double>(pending.rows);
      gradient = FormulaBackward(run_.layers[l], *w, values[l], values[l + 1], gradient, share,
                                 &pending.gradient[own - stage.layers.begin()]);
    }
    return absl::OkStatus();
  }

  static void Finish(Pending& update) {
    if (--update.missing > 0) return;
    for (const FormulaWeights& g : update.gradient) update.squared_norm += SquaredNorm(g);
  }

  bool LooksAtNorms() const {
    return run_.optimizer.clip_norm > 0 || run_.skip == FormulaRun::Skip::kInAllStages;
  }

  // The norm that update k of a stage looks at; negative: none.
  int64_t NormOf(size_t s, int64_t k) const {
    if (!LooksAtNorms()) return -1;
    return run_.norm_of ? run_.norm_of(static_cast<int>(s), k) : k;
  }

  const Pending& UpdateOfNorm(size_t s, int64_t norm) const {
    const std::vector<Pending>& updates = stages_[s].updates;
    const int64_t k = run_.norm_update ? run_.norm_update(static_cast<int>(s), norm) : norm;
    PIPEDREAM_CHECK(k >= 0 && k < std::ssize(updates));
    return updates[k];
  }

  bool Complete(int64_t norm) const {
    for (size_t s = 0; s < stages_.size(); ++s)
      if (UpdateOfNorm(s, norm).missing > 0) return false;
    return true;
  }

  double Norm(int64_t norm) const {
    double squared = 0;
    for (size_t s = 0; s < stages_.size(); ++s) squared += UpdateOfNorm(s, norm).squared_norm;
    return std::sqrt(squared);
  }

  // All updates that can be made by now, in order.
  void MakeUpdates() {
    for (size_t s = 0; s < stages_.size(); ++s) {
      Stage& stage = stages_[s];
      while (stage.made < std::ssize(stage.updates) && stage.updates[stage.made].missing == 0) {
        const int64_t norm = NormOf(s, stage.made);
        if (norm >= 0 && !Complete(norm)) break;
        const double length = norm >= 0 ? Norm(norm) : 0;
        const bool clips = run_.optimizer.clip_norm > 0 && std::isfinite(length);
        const double decisive = run_.skip == FormulaRun::Skip::kInThatStage
                                    ? stage.updates[stage.made].squared_norm
                                    : length;
        MakeUpdate(s, clips ? std::min(1.0, run_.optimizer.clip_norm / (length + 1e-6)) : 1.0,
                   run_.skip != FormulaRun::Skip::kNever && !std::isfinite(decisive));
      }
    }
  }

  void MakeUpdate(size_t s, double scale, bool skip) {
    Stage& stage = stages_[s];
    Pending& update = stage.updates[stage.made];
    const bool steps = update.rows > 0 && !skip;
    if (steps) ++stage.steps;
    const double rate = run_.learning_rate(static_cast<int>(s), stage.made);
    for (size_t own = 0; own < stage.layers.size(); ++own) {
      const size_t l = stage.layers[own];
      FormulaWeights next = result_.versions[l].back();
      if (steps) {
        FormulaWeights& g = update.gradient[own];
        for (double& v : g.weight) v *= scale;
        for (double& v : g.bias) v *= scale;
        StepTensor(run_.optimizer, rate, stage.steps, g.weight, &next.weight, &momentum_[l].weight,
                   &variance_[l].weight);
        StepTensor(run_.optimizer, rate, stage.steps, g.bias, &next.bias, &momentum_[l].bias,
                   &variance_[l].bias);
      }
      result_.versions[l].push_back(std::move(next));
    }
    update.gradient.clear();
    ++stage.made;
  }

  const FormulaRun& run_;
  std::vector<Stage> stages_;
  std::vector<FormulaWeights> momentum_;  // per layer; Adam's first moment
  std::vector<FormulaWeights> variance_;
  FormulaResult result_;
};

}  // namespace

absl::StatusOr<FormulaResult> TrainByFormula(const FormulaRun& run) { return Trainer(run).Train(); }

}  // namespace pipedream
