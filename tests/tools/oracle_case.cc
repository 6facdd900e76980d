#include "tests/tools/oracle_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

absl::StatusOr<json> ReadJson(const fs::path& path) {
  PD_ASSIGN_OR_RETURN(std::string text, ReadFile(path.string(), 64 << 20));
  json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return InvalidArgument("'{}' is not JSON", path.string());
  return document;
}

void ReadOptimizer(const json& config, JobSpec* spec) {
  const std::string type = config.at("type");
  OptimizerSpec& o = spec->optimizer;
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
  spec->learning_rate.base = config.at("lr");
  if (!config.contains("lr_schedule")) return;
  const json& schedule = config.at("lr_schedule");
  if (schedule.at("type") == "step") {
    spec->learning_rate.kind = LrScheduleKind::kStep;
    spec->learning_rate.step_every = schedule.at("every");
    spec->learning_rate.gamma = schedule.at("gamma");
  } else {
    spec->learning_rate.kind = LrScheduleKind::kCosine;
    spec->learning_rate.warmup = schedule.at("warmup");
    spec->learning_rate.total = schedule.at("total");
  }
}

// What models/ and pipeline/ descriptions share.
OracleCase ReadCommon(const json& document, int64_t steps) {
  OracleCase c;
  for (const char* list : {"inputs", "labels"})
    for (const auto& name : document.at(list)) c.columns.push_back(name);
  for (const auto& term : document.at("loss")) {
    LossTerm loss;
    loss.kind = term.at("type") == "mse" ? LossTerm::Kind::kMse : LossTerm::Kind::kCrossEntropy;
    loss.output = term.at("output");
    loss.label = term.at("label");
    loss.weight = term.at("weight");
    c.spec.loss.push_back(loss);
  }
  if (document.contains("undetermined_parameters"))
    for (const auto& name : document.at("undetermined_parameters")) c.undetermined.insert(name);
  c.spec.batch_size = document.at("batch_size");
  c.spec.epochs = steps / document.at("data_batches").get<int64_t>();
  c.spec.shuffle = false;
  c.spec.replica_lr = false;
  c.spec.evaluate = false;
  return c;
}

absl::Status AddModelCases(const fs::path& base, const fs::path& model_dir,
                           const std::string& label, bool loss_in_graph,
                           std::vector<OracleCase>* out) {
  PD_ASSIGN_OR_RETURN(json document, ReadJson(base / "case.json"));
  for (const auto& [optimizer, entry] : document.at("optimizers").items()) {
    OracleCase c = ReadCommon(document, document.at("steps"));
    c.name = label + " " + optimizer;
    c.model_path = (model_dir / "model.onnx").string();
    c.data_path = (base / "data.safetensors").string();
    c.expected_path = (base / (optimizer + ".safetensors")).string();
    c.first_gradients_path = (base / "step0.safetensors").string();
    c.loss_in_graph = loss_in_graph;
    c.spec.schedule = "1f1b";
    ReadOptimizer(entry.at("config"), &c.spec);
    out->push_back(std::move(c));
  }
  return absl::OkStatus();
}

// A schedule that must give a recorded run's numbers, or must not.
struct Rendering {
  std::string schedule;
  bool given_warmup = false;  // the run's own depths
  bool must_differ = false;
  std::vector<int> device_of = {};
  int replicas = 0;  // > 0: one stage with so many, and as many microbatches
  int stages = 0;    // > 0: so many, cut evenly
};

// The first is the recorded order; the others compute the same by another one.
std::vector<Rendering> RenderingsOf(const std::string& policy, const std::vector<int>& replicas,
                                    int microbatches, bool tied) {
  // What the whole model computes does not depend on the cut, not even through its shared matrix.
  if (tied && policy == "2bw") return {{"2bw"}, {.schedule = "2bw", .stages = 3}};
  if (tied && policy == "flush") {
    return {{"gpipe"}, {.schedule = "1f1b", .stages = 4}, {.schedule = "zb_h2", .stages = 2}};
  }
  if (policy == "stash") return {{"pipedream", true}};
  if (policy == "vsync") return {{"pipedream_vsync", true}};
  if (policy == "2bw") return {{"2bw", true}};
  // One weight copy that changes between a microbatch's forward and backward: PACI with an update
  // after every microbatch, and nothing that stashing may compute.
  if (policy == "nostash") return {{"pipedream", true, true}, {"paci", true}};
  if (policy == "sync") {
    // Batch statistics would be those of the replicas' parts.
    return {{"1f1b"}, {"data_parallel", false, false, {}, 2}};
  }
  if (policy == "flush-1f1b") return {{"1f1b"}};
  if (policy != "flush") return {};
  std::vector<Rendering> all = {{"gpipe"}, {"1f1b"}, {"sequential"}, {"zb_h1"}, {"zb_h2"}};
  if (replicas.size() == 4 && microbatches > 1) {
    all.push_back({"interleaved", false, false, {0, 1, 0, 1}});
    all.push_back({"zb_v", false, false, {0, 1, 1, 0}});
  }
  return all;
}

absl::Status AddPipelineCases(const fs::path& dir, std::vector<OracleCase>* out) {
  PD_ASSIGN_OR_RETURN(json document, ReadJson(dir / "pipeline.json"));
  for (const auto& [run, entry] : document.at("runs").items()) {
    OracleCase c = ReadCommon(document, document.at("minibatches"));
    const std::string policy = entry.at("policy");
    c.name = "pipeline/" + dir.filename().string() + " " + run;
    c.model_path = (dir / "model.onnx").string();
    c.data_path = (dir / "data.safetensors").string();
    c.expected_path = (dir / (run + ".safetensors")).string();
    c.spec.microbatches = entry.at("microbatches");
    c.replicas = entry.at("replicas").get<std::vector<int>>();
    const std::vector<int> warmup = entry.at("warmup_forwards").get<std::vector<int>>();
    const std::vector<Rendering> renderings =
        RenderingsOf(policy, c.replicas, c.spec.microbatches, document.at("partitions").empty());
    if (renderings.empty()) return InvalidArgument("{}: policy '{}' is unknown", c.name, policy);
    if (c.replicas.size() > 1) {
      const json& partition = document.at("partitions").at(std::to_string(c.replicas.size()));
      c.node_stage = partition.at("node_stage").get<std::map<std::string, int>>();
      c.parameter_stage = partition.at("param_stage").get<std::map<std::string, int>>();
    }
    ReadOptimizer(entry.at("optimizer"), &c.spec);
    if (entry.contains("relative_deviation") &&
        entry.at("relative_deviation").contains("weights_perturbed_5e-7"))
      c.sensitivity = entry.at("relative_deviation").at("weights_perturbed_5e-7").at("loss");
    for (const Rendering& rendering : renderings) {
      OracleCase rendered = c;
      rendered.spec.schedule = rendering.schedule;
      rendered.must_differ = rendering.must_differ;
      rendered.device_of = rendering.device_of;
      if (rendering.given_warmup) rendered.warmup = warmup;
      if (rendering.replicas > 0) {
        rendered.replicas = {rendering.replicas};
        rendered.spec.microbatches = rendering.replicas;
      }
      if (rendering.stages > 0) {
        rendered.replicas.assign(rendering.stages, 1);
        rendered.even_cut = true;
        rendered.name += fmt::format(" on {} stages", rendering.stages);
      }
      if (&rendering != &renderings.front()) rendered.name += " by " + rendering.schedule;
      out->push_back(std::move(rendered));
    }
  }
  return absl::OkStatus();
}

std::vector<fs::path> Folders(const fs::path& dir) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error))
    if (entry.is_directory()) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

absl::StatusOr<std::vector<OracleCase>> ReadOracleCases(const std::string& dir) {
  fs::path root = fs::weakly_canonical(dir);
  const std::string part = root.filename().string();
  if (part == "models" || part == "variants" || part == "pipeline") root = root.parent_path();
  auto wanted = [&](const char* name) { return root == fs::weakly_canonical(dir) || part == name; };
  std::vector<OracleCase> out;
  try {  // nlohmann reports missing keys by exception
    if (wanted("models"))
      for (const fs::path& base : Folders(root / "models"))
        PD_RETURN_IF_ERROR(
            AddModelCases(base, base, "models/" + base.filename().string(), false, &out));
    if (wanted("variants")) {
      for (const fs::path& variant : Folders(root / "variants")) {
        PD_ASSIGN_OR_RETURN(json document, ReadJson(variant / "variant.json"));
        PD_RETURN_IF_ERROR(AddModelCases(root / document.at("base").get<std::string>(), variant,
                                         "variants/" + variant.filename().string(),
                                         document.at("variant") == "loss_in_graph", &out));
      }
    }
    if (wanted("pipeline"))
      for (const fs::path& base : Folders(root / "pipeline"))
        PD_RETURN_IF_ERROR(AddPipelineCases(base, &out));
  } catch (const json::exception& e) {
    return InvalidArgument("'{}' is not an oracle folder: {}", dir, e.what());
  }
  if (out.empty()) return NotFound("'{}' holds no oracle case", dir);
  return out;
}

}  // namespace pipedream
