// The oracle against recorded PyTorch training of multilayer perceptrons: pipeline runs under every
// policy, and every optimizer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/graph/onnx/proto.h"
#include "common/graph/safetensors.h"
#include "tests/support/formula_models.h"
#include "tests/support/formula_oracle.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using nlohmann::json;

// The recordings are double precision, too; their losses are printed in full, weights as float32.
constexpr double kRecordedLossTolerance = 1e-9;
constexpr double kRecordedWeightTolerance = 1e-6;

absl::StatusOr<json> ReadJson(const std::string& path) {
  PD_ASSIGN_OR_RETURN(std::string text, ReadFile(path, 64 << 20));
  return json::parse(text);
}

std::vector<double> ToDoubles(const Tensor& tensor) {
  auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

struct Network {
  FormulaRun run;  // layers and data
  std::vector<std::string> weights, biases;
};

// A chain of Gemm nodes, each with an activation or none behind it.
absl::StatusOr<Network> ReadNetwork(const std::string& folder) {
  PD_ASSIGN_OR_RETURN(std::string bytes, ReadFile(folder + "/model.onnx", 64 << 20));
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) return InvalidArgument("'{}' holds no model", folder);
  std::map<std::string, const onnx::TensorProto*> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers[tensor.name()] = &tensor;
  auto values = [&](const std::string& name) {
    const std::string& raw = initializers.at(name)->raw_data();
    const float* floats = reinterpret_cast<const float*>(raw.data());
    return std::vector<double>(floats, floats + raw.size() / sizeof(float));
  };
  Network network;
  std::vector<FormulaLayer>& layers = network.run.layers;
  for (const auto& node : model.graph().node()) {
    if (node.op_type() == "Flatten") continue;
    if (node.op_type() == "Gemm") {
      FormulaLayer& layer = layers.emplace_back();
      layer.outputs = initializers.at(node.input(1))->dims(0);
      layer.inputs = initializers.at(node.input(1))->dims(1);
      layer.activation = FormulaActivation::kNone;
      layer.initial = {values(node.input(1)), values(node.input(2))};
      network.weights.push_back(node.input(1));
      network.biases.push_back(node.input(2));
    } else if (node.op_type() == "Relu") {
      layers.back().activation = FormulaActivation::kRelu;
    } else if (node.op_type() == "Tanh") {
      layers.back().activation = FormulaActivation::kTanh;
    } else if (node.op_type() == "Sigmoid") {
      layers.back().activation = FormulaActivation::kSigmoid;
    } else {
      return InvalidArgument("'{}' has a node {}", folder, node.op_type());
    }
  }
  PD_ASSIGN_OR_RETURN(auto data, ReadSafetensors(folder + "/data.safetensors"));
  network.run.data.x = ToDoubles(data.at("x"));
  auto labels = data.at("y").as<int64_t>();
  network.run.data.labels.assign(labels.begin(), labels.end());
  return network;
}

OptimizerSpec OptimizerOf(const json& config) {
  OptimizerSpec o;
  const std::string type = config.at("type");
  o.kind = type == "sgd"    ? OptimizerKind::kSgd
           : type == "adam" ? OptimizerKind::kAdam
                            : OptimizerKind::kAdamW;
  o.momentum = config.value("momentum", 0.0);
  o.nesterov = config.value("nesterov", false);
  o.weight_decay = config.value("weight_decay", 0.0);
  o.beta1 = config.value("beta1", 0.9);
  o.beta2 = config.value("beta2", 0.999);
  o.epsilon = config.value("eps", 1e-8);
  o.clip_norm = config.value("clip_grad_norm", 0.0);
  return o;
}

LrSchedule RateOf(const json& config) {
  LrSchedule rate;
  rate.base = config.at("lr");
  if (!config.contains("lr_schedule")) return rate;
  const json& schedule = config.at("lr_schedule");
  const bool step = schedule.at("type") == "step";
  rate.kind = step ? LrScheduleKind::kStep : LrScheduleKind::kCosine;
  rate.warmup = schedule.value("warmup", 0);
  rate.total = schedule.value("total", 0);
  rate.step_every = schedule.value("every", 0);
  rate.gamma = schedule.value("gamma", 1.0);
  return rate;
}

// Minibatch t is batch t mod batches, cut into `microbatches` units of consecutive rows.
void SetUnits(int64_t minibatches, int64_t batches, int64_t batch_size, int64_t microbatches,
              FormulaRun* run) {
  for (int64_t t = 0; t < minibatches; ++t)
    for (int64_t k = 0; k < batch_size; ++k) {
      if (k % (batch_size / microbatches) == 0) run->units.emplace_back();
      run->units.back().push_back(t % batches * batch_size + k);
    }
}

void ExpectRecorded(const Network& network, const std::vector<double>& losses,
                    const std::string& recording) {
  ASSERT_OK_AND_ASSIGN(FormulaResult result, TrainByFormula(network.run));
  const int64_t microbatches = std::ssize(result.losses) / std::ssize(losses);
  for (int64_t t = 0; t < std::ssize(losses); ++t) {
    double sum = 0;
    for (int64_t i = 0; i < microbatches; ++i) sum += result.losses[t * microbatches + i];
    EXPECT_NEAR(sum / static_cast<double>(microbatches) / losses[t], 1, kRecordedLossTolerance)
        << t;
  }
  ASSERT_OK_AND_ASSIGN(auto expected, ReadSafetensors(recording));
  auto compare = [&](const std::string& name, const std::vector<double>& found) {
    const std::vector<double> wanted = ToDoubles(expected.at("param/" + name));
    ASSERT_EQ(found.size(), wanted.size()) << name;
    double largest = 0, off = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::abs(wanted[i]));
      off = std::max(off, std::abs(wanted[i] - found[i]));
    }
    EXPECT_LE(off, kRecordedWeightTolerance * largest) << name;
  };
  for (size_t l = 0; l < network.weights.size(); ++l) {
    compare(network.weights[l], result.versions[l].back().weight);
    compare(network.biases[l], result.versions[l].back().bias);
  }
}

std::function<int64_t(int, int64_t)> VersionsOf(const std::string& policy, int64_t m,
                                                const std::vector<int64_t>& replicas,
                                                const std::vector<int64_t>& depth) {
  if (policy == "stash" || policy == "nostash")
    return [=](int s, int64_t t) { return std::max<int64_t>(0, t / replicas[s] - depth[s]); };
  if (policy == "vsync")
    return [=](int, int64_t t) { return std::max<int64_t>(0, t / replicas[0] - depth[0]); };
  if (policy == "2bw") return [=](int, int64_t u) { return std::max<int64_t>(0, u / m - 1); };
  return [=](int, int64_t u) { return u / m; };
}

TEST(FormulaRecordedTest, PipelinesUseTheVersionsOfTheirPolicy) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  const std::string folder = SharedDataDir() + "/oracle/pipeline/mlp-s0";
  ASSERT_OK_AND_ASSIGN(const json document, ReadJson(folder + "/pipeline.json"));
  ASSERT_OK_AND_ASSIGN(const Network plain, ReadNetwork(folder));
  int runs = 0;
  for (const auto& [name, entry] : document.at("runs").items()) {
    SCOPED_TRACE(name);
    const std::string policy = entry.at("policy");
    const int64_t m = entry.at("microbatches");
    const std::vector<int64_t> replicas = entry.at("replicas");
    const std::vector<int64_t> depth = entry.at("warmup_forwards");
    Network network = plain;
    FormulaRun& run = network.run;
    const json& stages =
        document.at("partitions").at(std::to_string(replicas.size())).at("param_stage");
    for (size_t l = 0; l < run.layers.size(); ++l)
      run.layers[l].stage = stages.at(network.weights[l]);
    SetUnits(document.at("minibatches"), document.at("data_batches"), document.at("batch_size"), m,
             &run);
    for (int64_t r : replicas)
      run.updates.push_back(FormulaUpdates(std::ssize(run.units), m > 1 ? m : r));
    run.forward_version = VersionsOf(policy, m, replicas, depth);
    if (policy == "nostash") run.backward_version = [](int, int64_t t) { return t; };
    const LrSchedule rate = RateOf(entry.at("optimizer"));
    run.optimizer = FormulaOptimizerOf(OptimizerOf(entry.at("optimizer")));
    run.learning_rate = [&](int, int64_t k) { return FormulaRate(rate, k); };
    const std::vector<std::vector<int64_t>> used = entry.at("version_used");
    for (size_t s = 0; s < used.size(); ++s)
      for (size_t u = 0; u < used[s].size(); ++u)
        ASSERT_EQ(run.forward_version(static_cast<int>(s), static_cast<int64_t>(u)), used[s][u]);
    ExpectRecorded(network, entry.at("losses"), folder + "/" + name + ".safetensors");
    ++runs;
  }
  EXPECT_GE(runs, 40);
}

TEST(FormulaRecordedTest, OptimizersTrainAsRecorded) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  const std::string folder = SharedDataDir() + "/oracle/models/mlp-s0";
  ASSERT_OK_AND_ASSIGN(const json document, ReadJson(folder + "/case.json"));
  ASSERT_OK_AND_ASSIGN(const Network plain, ReadNetwork(folder));
  for (const auto& [name, entry] : document.at("optimizers").items()) {
    SCOPED_TRACE(name);
    Network network = plain;
    FormulaRun& run = network.run;
    SetUnits(document.at("steps"), document.at("data_batches"), document.at("batch_size"), 1, &run);
    run.updates = {FormulaUpdates(std::ssize(run.units), 1)};
    run.forward_version = [](int, int64_t t) { return t; };
    const LrSchedule rate = RateOf(entry.at("config"));
    run.optimizer = FormulaOptimizerOf(OptimizerOf(entry.at("config")));
    run.learning_rate = [&](int, int64_t k) { return FormulaRate(rate, k); };
    ExpectRecorded(network, entry.at("losses"), folder + "/" + name + ".safetensors");
  }
}

}  // namespace
}  // namespace pipedream
