#include "tests/support/formula_models.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/graph/training_graph.h"
#include "tests/support/npy_file.h"
#include "tests/support/onnx_builder.h"

namespace pipedream {
namespace {

// Streams of the seed.
constexpr uint64_t kTrainStream = 100;
constexpr uint64_t kEvaluationStream = 200;

// Uniform in [-limit, limit) and exact in float32, so that engine and oracle start alike.
std::vector<double> Uniform(uint64_t seed, uint64_t stream, int64_t count, float limit) {
  std::vector<double> out(count);
  for (int64_t i = 0; i < count; ++i)
    out[i] = limit * (2 * UniformFloat(Philox(seed, stream, i)[0]) - 1);
  return out;
}

std::vector<float> ToFloats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

std::string FormulaWeightName(int layer) { return fmt::format("layer{}.weight", layer); }
std::string FormulaBiasName(int layer) { return fmt::format("layer{}.bias", layer); }

FormulaJob::FormulaJob(const FormulaJobOptions& options) : options_(options) {
  folder_ = (std::filesystem::temp_directory_path() / "formula-job-XXXXXX").string();
  PIPEDREAM_CHECK(mkdtemp(folder_.data()) != nullptr);
  for (int l = 0; l < layer_count(); ++l) {
    FormulaLayer layer;
    layer.inputs = options_.sizes[l];
    layer.outputs = options_.sizes[l + 1];
    if (l + 1 == layer_count()) layer.activation = FormulaActivation::kNone;
    const float limit = std::sqrt(3.0f / static_cast<float>(layer.inputs));
    layer.initial.weight = Uniform(options_.seed, 2 * l, layer.inputs * layer.outputs, limit);
    layer.initial.bias = Uniform(options_.seed, 2 * l + 1, layer.outputs, limit);
    layers_.push_back(std::move(layer));
  }
  WriteModel();
  auto model = Model::Load(model_path());
  PIPEDREAM_CHECK(model.ok());
  model_ = *model;
  train_ = WriteSplit("train", options_.train_samples, &train_data_);
  evaluation_ = WriteSplit("test", options_.evaluation_samples, &evaluation_data_);
}

FormulaJob::~FormulaJob() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

void FormulaJob::WriteModel() const {
  OnnxBuilder builder;
  builder.Input("x", {-1, options_.sizes.front()});
  std::string value = "x";
  for (int l = 0; l < layer_count(); ++l) {
    const FormulaLayer& layer = layers_[l];
    const bool last = l + 1 == layer_count();
    builder.Floats(FormulaWeightName(l), {layer.outputs, layer.inputs},
                   ToFloats(layer.initial.weight));
    builder.Floats(FormulaBiasName(l), {layer.outputs}, ToFloats(layer.initial.bias));
    const std::string linear = last ? "y_hat" : fmt::format("layer{}.linear", l);
    builder.Node("Gemm", {value, FormulaWeightName(l), FormulaBiasName(l)}, {linear})
        .Int("transB", 1);
    if (last) break;
    value = fmt::format("layer{}.tanh", l);
    builder.Node("Tanh", {linear}, {value});
  }
  builder.Output("y_hat", {-1, options_.sizes.back()}).Save(model_path());
}

std::shared_ptr<const Dataset> FormulaJob::WriteSplit(const std::string& split, int64_t samples,
                                                      FormulaData* data) const {
  const int64_t inputs = options_.sizes.front(), outputs = options_.sizes.back();
  const uint64_t stream = split == "train" ? kTrainStream : kEvaluationStream;
  std::vector<ColumnSpec> columns(2);
  columns[0].name = "x";
  columns[0].path = fmt::format("{}/{}-x.npy", folder_, split);
  columns[1].name = "y";
  columns[1].path = fmt::format("{}/{}-y.npy", folder_, split);
  ColumnRequirement y{"y", DataType::kFloat32, Shape{outputs}, 0};

  data->x = Uniform(options_.seed, stream, samples * inputs, 1);
  if (split == "train" && options_.broken_row >= 0)
    data->x[options_.broken_row * inputs] = options_.broken_value;
  const std::vector<float> x = ToFloats(data->x);
  WriteNpy(columns[0].path, "<f4", fmt::format("({}, {})", samples, inputs), x.data(),
           x.size() * sizeof(float));
  if (options_.loss == FormulaLoss::kCrossEntropy) {
    for (int64_t i = 0; i < samples; ++i)
      data->labels.push_back(Philox(options_.seed, stream + 1, i)[0] % outputs);
    WriteNpy(columns[1].path, "<i8", fmt::format("({},)", samples), data->labels.data(),
             data->labels.size() * sizeof(int64_t));
    y = {"y", DataType::kInt64, Shape{}, outputs};
  } else {
    data->targets = Uniform(options_.seed, stream + 1, samples * outputs, 1);
    const std::vector<float> targets = ToFloats(data->targets);
    WriteNpy(columns[1].path, "<f4", fmt::format("({}, {})", samples, outputs), targets.data(),
             targets.size() * sizeof(float));
  }
  auto dataset = Dataset::Open(columns, {{"x", DataType::kFloat32, Shape{inputs}, 0}, y});
  PIPEDREAM_CHECK(dataset.ok());
  return *dataset;
}

JobSpec FormulaJob::Spec() const {
  JobSpec spec;
  LossTerm term;
  term.kind =
      options_.loss == FormulaLoss::kMse ? LossTerm::Kind::kMse : LossTerm::Kind::kCrossEntropy;
  term.output = "y_hat";
  term.label = "y";
  spec.loss = {term};
  return spec;
}

std::vector<int> FormulaJob::StageOfNodes(const std::vector<int>& layer_stage) const {
  auto forward = model_->Bind({2, GraphForm::kTraining, {}, {}});
  PIPEDREAM_CHECK(forward.ok());
  auto training = MakeTrainingGraph(*forward, Spec().loss);
  PIPEDREAM_CHECK(training.ok());
  const Graph& graph = training->graph;
  std::vector<int> out;
  for (int n = 0; n < training->forward_nodes; ++n) {
    int stage = 0;
    for (ValueId input : graph.node(NodeId(n)).inputs) {
      if (input == kNoValue) continue;
      const Value& value = graph.value(input);
      if (value.producer != kNoNode) stage = std::max(stage, out[value.producer.value()]);
      for (int l = 0; l < layer_count(); ++l)
        if (value.name == FormulaWeightName(l)) stage = std::max(stage, layer_stage[l]);
    }
    out.push_back(stage);
  }
  return out;
}

FormulaRun FormulaJob::Run(const std::vector<int>& layer_stage) const {
  FormulaRun run;
  run.layers = layers_;
  for (int l = 0; l < layer_count(); ++l) run.layers[l].stage = layer_stage[l];
  run.loss = options_.loss;
  run.data = train_data_;
  return run;
}

FormulaOptimizer FormulaOptimizerOf(const OptimizerSpec& spec) {
  FormulaOptimizer out;
  out.kind = spec.kind == OptimizerKind::kSgd    ? FormulaOptimizer::Kind::kSgd
             : spec.kind == OptimizerKind::kAdam ? FormulaOptimizer::Kind::kAdam
                                                 : FormulaOptimizer::Kind::kAdamW;
  out.momentum = spec.momentum;
  out.nesterov = spec.nesterov;
  out.beta1 = spec.beta1;
  out.beta2 = spec.beta2;
  out.epsilon = spec.epsilon;
  out.weight_decay = spec.weight_decay;
  out.clip_norm = spec.clip_norm;
  return out;
}

double FormulaRate(const LrSchedule& schedule, int64_t k) {
  const auto step = static_cast<double>(k);
  const auto warmup = static_cast<double>(schedule.warmup);
  if (k < schedule.warmup) return schedule.base * (step + 1) / warmup;
  switch (schedule.kind) {
    case LrScheduleKind::kConstant:
      return schedule.base;
    case LrScheduleKind::kStep:
      return schedule.base * std::pow(schedule.gamma, static_cast<double>(k / schedule.step_every));
    case LrScheduleKind::kCosine:
      return schedule.base *
             (1 + std::cos(std::numbers::pi * (step - warmup) /
                           (static_cast<double>(schedule.total) - warmup))) /
             2;
  }
  return schedule.base;
}

std::vector<std::vector<int64_t>> FormulaUnits(const RunShape& run) {
  const int64_t part = (run.batch_size + run.microbatches - 1) / run.microbatches;
  std::vector<std::vector<int64_t>> units;
  for (int64_t epoch = 0; epoch < run.epochs; ++epoch) {
    for (int64_t begin = 0; begin < run.train_samples; begin += run.batch_size) {
      const int64_t end = std::min(begin + run.batch_size, run.train_samples);
      for (int i = 0; i < run.microbatches; ++i) {
        std::vector<int64_t>& rows = units.emplace_back();
        for (int64_t k = begin + i * part; k < std::min(begin + (i + 1) * part, end); ++k)
          rows.push_back(TrainingRow(run, epoch, k));
      }
    }
  }
  return units;
}

std::vector<FormulaUpdate> FormulaUpdates(int64_t units, int64_t units_per_update) {
  std::vector<FormulaUpdate> updates;
  for (int64_t u = 0; u < units; u += units_per_update)
    updates.push_back({u, std::min(units_per_update, units - u)});
  return updates;
}

}  // namespace pipedream
