// oracle_replay DIR [FILTER]: trains every recorded case below DIR as the engine would, all stages
// in one thread, and compares losses, first gradients, trained weights and running statistics with
// the recording. Prints a line per case and "N passed, N failed, N skipped". FILTER keeps the cases
// whose name contains it. Exit code: 0 all passed, 1 some failed, 77 DIR is not there.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/graph/model.h"
#include "common/graph/safetensors.h"
#include "common/graph/training_graph.h"
#include "tests/support/npy_file.h"
#include "tests/tools/oracle_case.h"
#include "worker/engine/simulation.h"

namespace pipedream {
namespace {

constexpr double kLossTolerance = 1e-5;    // relative
// Where the reference moves further by itself, so much of that, and never more than the last.
constexpr double kSensitivityFactor = 1.05;
constexpr double kMostLossTolerance = 1e-4;
constexpr double kWeightTolerance = 5e-3;  // of the tensor's largest weight
constexpr double kDifferent = 1e-4;        // losses of different policies are further apart
constexpr double kGradientRate = 1024;     // a power of two: dividing by it is exact

struct Outcome {
  bool pass = false;
  std::string detail;
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "oracle-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The recording's samples as files, opened the way a job opens its data.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenData(const OracleCase& c, const Model& model,
                                                        const std::string& folder) {
  PD_ASSIGN_OR_RETURN(auto tensors, ReadSafetensors(c.data_path));
  std::vector<ColumnSpec> columns;
  std::vector<ColumnRequirement> requirements;
  for (const std::string& name : c.columns) {
    auto it = tensors.find(name);
    if (it == tensors.end()) return NotFound("'{}' lacks tensor '{}'", c.data_path, name);
    ColumnSpec column;
    column.name = name;
    column.path = fmt::format("{}/{}.npy", folder, columns.size());
    PD_RETURN_IF_ERROR(WriteFileAtomic(column.path, NpyBytes(it->second)));
    columns.push_back(std::move(column));
    std::vector<int64_t> dims = it->second.shape().dims();
    ColumnRequirement wanted{name, it->second.dtype(), Shape({dims.begin() + 1, dims.end()})};
    for (const ModelInput& input : model.inputs())
      if (input.name == name) wanted.dtype = input.dtype;
    requirements.push_back(std::move(wanted));
  }
  return Dataset::Open(columns, requirements);
}

std::vector<int> StagesOf(const OracleCase& c, const TrainingGraph& training) {
  std::vector<int> out;
  for (int n = 0; n < training.forward_nodes; ++n) {
    if (c.even_cut) {
      out.push_back(n * static_cast<int>(c.replicas.size()) / training.forward_nodes);
      continue;
    }
    const Node& node = training.graph.node(NodeId(n));
    int stage = 0;
    for (ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      const Value& value = training.graph.value(input);
      if (value.producer != kNoNode) stage = std::max(stage, out[value.producer.value()]);
      if (auto it = c.parameter_stage.find(value.name); it != c.parameter_stage.end())
        stage = std::max(stage, it->second);
    }
    for (ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      auto it = c.node_stage.find(training.graph.value(output).name);
      if (it != c.node_stage.end()) stage = it->second;
    }
    out.push_back(stage);
  }
  return out;
}

double LargestMagnitude(std::span<const float> values) {
  double largest = 0;
  for (float v : values) largest = std::max(largest, std::abs(static_cast<double>(v)));
  return largest;
}

double LargestDifference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return std::isfinite(largest) ? largest : INFINITY;
}

std::vector<double> ToDoubles(const Tensor& tensor) {
  std::vector<double> out;
  if (tensor.dtype() == DataType::kFloat64) {
    auto values = tensor.as<double>();
    out.assign(values.begin(), values.end());
  } else {
    auto values = tensor.as<float>();
    out.assign(values.begin(), values.end());
  }
  return out;
}

// Largest relative difference of the loss curves.
double LossGap(const std::vector<double>& losses, const std::vector<double>& expected) {
  if (losses.size() != expected.size()) return INFINITY;
  double gap = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    double d = std::abs(losses[i] - expected[i]) / std::abs(expected[i]);
    gap = std::max(gap, std::isfinite(d) ? d : INFINITY);
  }
  return gap;
}

// Compares tensors named PREFIX/NAME with `trained`; names the first that is off.
std::string CompareTensors(const std::map<std::string, Tensor>& expected, std::string_view prefix,
                           const std::map<std::string, Tensor>& trained, const OracleCase& c,
                           double* worst) {
  for (const auto& [key, tensor] : expected) {
    if (key.rfind(prefix, 0) != 0 || key.find('@') != std::string::npos) continue;
    const std::string name = key.substr(prefix.size());
    if (c.undetermined.contains(name)) continue;
    auto it = trained.find(name);
    if (it == trained.end()) return fmt::format("'{}' was not trained", name);
    if (it->second.shape() != tensor.shape())
      return fmt::format("'{}' has shape {} instead of {}", name, it->second.shape().ToString(),
                         tensor.shape().ToString());
    double largest = LargestMagnitude(tensor.as<float>());
    double off = LargestDifference(it->second.as<float>(), tensor.as<float>());
    double relative = largest > 0 ? off / largest : off;
    *worst = std::max(*worst, relative);
    if (relative > kWeightTolerance)
      return fmt::format("'{}' is off by {:.2e} of its largest value", name, relative);
  }
  return "";
}

// One update of plain SGD with a huge rate turns weights into gradients.
absl::StatusOr<std::string> CompareGradients(const OracleCase& c, SimulationOptions options,
                                             double* worst) {
  PD_ASSIGN_OR_RETURN(auto expected, ReadSafetensors(c.first_gradients_path));
  options.spec.optimizer = OptimizerSpec{};
  options.spec.learning_rate = LrSchedule{};
  options.spec.learning_rate.base = 0;
  options.run.train_samples = options.run.batch_size;
  options.run.epochs = 1;
  PD_ASSIGN_OR_RETURN(SimulationResult before, Simulate(options));
  options.spec.learning_rate.base = kGradientRate;
  PD_ASSIGN_OR_RETURN(SimulationResult after, Simulate(options));
  double largest_of_all = 0;
  for (const auto& [key, tensor] : expected)
    if (key.rfind("grad/", 0) == 0)
      largest_of_all = std::max(largest_of_all, LargestMagnitude(tensor.as<float>()));
  for (const auto& [key, tensor] : expected) {
    if (key.rfind("grad/", 0) != 0) continue;
    const std::string name = key.substr(5);
    auto from = before.weights.find(name);
    auto to = after.weights.find(name);
    if (from == before.weights.end() || to == after.weights.end())
      return fmt::format("no gradient of '{}'", name);
    auto a = from->second.as<float>();
    auto b = to->second.as<float>();
    std::vector<float> gradient(a.size());
    for (size_t i = 0; i < a.size(); ++i)
      gradient[i] = static_cast<float>((static_cast<double>(a[i]) - b[i]) / kGradientRate);
    double off = LargestDifference(gradient, tensor.as<float>());
    double allowed = 1e-4 * LargestMagnitude(tensor.as<float>()) + 1e-6 * largest_of_all;
    *worst = std::max(*worst, off / allowed);
    if (!(off <= allowed))
      return fmt::format("gradient of '{}' is off by {:.2e}, {:.2e} allowed", name, off, allowed);
  }
  return "";
}

absl::StatusOr<Outcome> Replay(const OracleCase& c) {
  SimulationOptions options;
  PD_ASSIGN_OR_RETURN(options.model, Model::Load(c.model_path));
  options.spec = c.spec;
  if (c.loss_in_graph) {
    LossTerm term;
    term.kind = LossTerm::Kind::kOutput;
    term.output = options.model->output_names().back();
    options.spec.loss = {term};
  }
  TemporaryFolder folder;
  PD_ASSIGN_OR_RETURN(options.train, OpenData(c, *options.model, folder.path()));
  options.run = MakeRunShape(options.spec, options.train->rows(), 0);
  options.replicas = c.replicas;
  options.warmup = c.warmup;
  options.device_of = c.device_of;
  PD_ASSIGN_OR_RETURN(Graph forward, options.model->Bind({2, GraphForm::kTraining, {}, {}}));
  PD_ASSIGN_OR_RETURN(TrainingGraph training, MakeTrainingGraph(forward, options.spec.loss));
  options.stage_of = StagesOf(c, training);

  PD_ASSIGN_OR_RETURN(SimulationResult result, Simulate(options));
  PD_ASSIGN_OR_RETURN(auto expected, ReadSafetensors(c.expected_path));
  auto losses = expected.find("losses");
  if (losses == expected.end()) return NotFound("'{}' has no losses", c.expected_path);
  const double gap = LossGap(result.losses, ToDoubles(losses->second));
  if (c.must_differ)
    return Outcome{gap > kDifferent, fmt::format("losses differ by {:.1e}, as they must", gap)};
  const double allowed =
      std::clamp(kSensitivityFactor * c.sensitivity, kLossTolerance, kMostLossTolerance);
  if (!(gap <= allowed)) return Outcome{false, fmt::format("losses are off by {:.2e}", gap)};

  double worst = 0, worst_gradient = 0;
  std::string fault = CompareTensors(expected, "param/", result.weights, c, &worst);
  if (fault.empty()) fault = CompareTensors(expected, "buffer/", result.weights, c, &worst);
  if (fault.empty() && !c.first_gradients_path.empty()) {
    PD_ASSIGN_OR_RETURN(fault, CompareGradients(c, options, &worst_gradient));
  }
  if (!fault.empty()) return Outcome{false, fault};
  return Outcome{true,
                 fmt::format("losses {:.1e}, weights {:.1e}{}", gap, worst,
                             c.first_gradients_path.empty()
                                 ? ""
                                 : fmt::format(", gradients {:.2f} of allowed", worst_gradient))};
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: oracle_replay DIR [FILTER]\n");
    return 2;
  }
  if (!std::filesystem::is_directory(argv[1])) {
    std::printf("skipped: '%s' is not there\n", argv[1]);
    return 77;
  }
  absl::StatusOr<std::vector<OracleCase>> cases = ReadOracleCases(argv[1]);
  if (!cases.ok()) {
    std::fprintf(stderr, "%s\n", cases.status().ToString().c_str());
    return 2;
  }
  int passed = 0, failed = 0, skipped = 0;
  for (const OracleCase& c : *cases) {
    if (argc == 3 && c.name.find(argv[2]) == std::string::npos) continue;
    const char* verdict = "skip";
    std::string detail;
    if (absl::StatusOr<Outcome> outcome = Replay(c); outcome.ok()) {
      verdict = outcome->pass ? "pass" : "FAIL";
      ++(outcome->pass ? passed : failed);
      detail = outcome->detail;
    } else if (absl::IsUnimplemented(outcome.status())) {
      ++skipped;
      detail = "operators that are not supported";
    } else {
      verdict = "FAIL";
      ++failed;
      detail = outcome.status().ToString();
    }
    std::printf("%s  %s: %s\n", verdict, c.name.c_str(), detail.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace pipedream

int main(int argc, char** argv) { return pipedream::Main(argc, argv); }
