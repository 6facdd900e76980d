#include <fmt/format.h>

#include "common/base/status.h"
#include "common/job/job_schedule.h"
#include "common/job/job_spec.h"
#include "common/base/nearest_name.h"
#include "common/yaml/yaml_reader.h"

namespace pipedream {
namespace {

constexpr size_t kMaxJobFileBytes = 4 << 20;  // it may hold a schedule

// One of `names` -> its position; adds a fault that lists them otherwise.
int Choice(const YAML::Node& node, const std::string& path, YamlFaults* faults,
           const std::vector<std::string>& names) {
  std::string text;
  if (!YamlText(node, path, faults, &text)) return -1;
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<int>(i);
  faults->Add(node, path,
              fmt::format("'{}' is unknown; did you mean '{}'? Known: {}", text,
                          NearestName(text, names), fmt::join(names, ", ")));
  return -1;
}

const std::vector<std::string> kFormats = {"auto", "idx", "npy", "text"};
const std::vector<std::string> kLossKinds = {"cross_entropy", "mse", "output"};
const std::vector<std::string> kOptimizers = {"sgd", "adam", "adamw"};
const std::vector<std::string> kOnNonFinite = {"stop", "skip"};
const std::vector<std::string> kLrSchedules = {"constant", "step", "cosine"};

ColumnSpec ReadColumn(const std::string& name, const YAML::Node& node, const std::string& path,
                      YamlFaults* faults) {
  ColumnSpec column;
  column.name = name;
  if (node.IsScalar()) {
    column.path = node.Scalar();
    return column;
  }
  YamlMap map(node, path, faults);
  map.Read("file", &column.path);
  if (const YAML::Node format = map.Take("format"); format.IsDefined()) {
    const int choice = Choice(format, map.Path("format"), faults, kFormats);
    if (choice >= 0) column.format = static_cast<ColumnFormat>(choice);
  }
  map.Read("scale", &column.scale);
  map.Read("offset", &column.offset);
  map.Read("window", &column.window);
  map.Read("stride", &column.stride);
  map.Read("shift", &column.shift);
  map.Read("vocabulary", &column.vocabulary_path);
  map.Read("limit", &column.limit);
  map.Finish();
  return column;
}

void ReadColumns(const YAML::Node& node, const std::string& path, YamlFaults* faults,
                 std::vector<ColumnSpec>* out) {
  if (!node.IsDefined()) return;
  if (!node.IsMap()) {
    return faults->Add(
        node, path, "must be a map from model inputs and labels to files, such as x: images.npy");
  }
  for (const auto& entry : node) {
    std::string name;
    if (!YamlText(entry.first, path, faults, &name)) return;
    out->push_back(ReadColumn(name, entry.second, fmt::format("{}.{}", path, name), faults));
  }
}

void ReadData(const YAML::Node& node, YamlFaults* faults, JobSpec* spec) {
  if (!node.IsDefined()) return;
  if (node.IsScalar()) {
    spec->data_folder = node.Scalar();
    return;
  }
  YamlMap map(node, "data", faults);
  ReadColumns(map.Take("train"), "data.train", faults, &spec->train_columns);
  ReadColumns(map.Take("test"), "data.test", faults, &spec->evaluation_columns);
  map.Finish();
}

LossTerm ReadLossTerm(const YAML::Node& node, const std::string& path, YamlFaults* faults) {
  LossTerm term;
  if (node.IsScalar()) {
    constexpr std::string_view kPrefix = "output:";
    if (node.Scalar().starts_with(kPrefix)) {
      term.kind = LossTerm::Kind::kOutput;
      term.output = node.Scalar().substr(kPrefix.size());
      return term;
    }
    if (node.Scalar() == "output") {
      faults->Add(node, path, "'output' needs the name of a scalar output: output:NAME");
      return term;
    }
    const int choice = Choice(node, path, faults, kLossKinds);
    if (choice >= 0) term.kind = static_cast<LossTerm::Kind>(choice);
    return term;
  }
  YamlMap map(node, path, faults);
  const YAML::Node type = map.Take("type");
  if (type.IsDefined()) {
    const int choice = Choice(type, map.Path("type"), faults, kLossKinds);
    if (choice >= 0) term.kind = static_cast<LossTerm::Kind>(choice);
  } else {
    faults->Add(node, path, "has no type; say cross_entropy, mse or output");
  }
  map.Read("output", &term.output);
  map.Read("label", &term.label);
  map.Read("weight", &term.weight);
  map.Finish();
  return term;
}

void ReadLoss(const YAML::Node& node, YamlFaults* faults, JobSpec* spec) {
  if (!node.IsDefined()) return;
  if (!node.IsSequence()) {
    spec->loss.push_back(ReadLossTerm(node, "loss", faults));
    return;
  }
  for (const YAML::Node& term : node) {
    spec->loss.push_back(ReadLossTerm(term, fmt::format("loss[{}]", spec->loss.size()), faults));
  }
}

void ReadOptimizer(const YAML::Node& node, YamlFaults* faults, JobSpec* spec) {
  if (!node.IsDefined()) return;
  OptimizerSpec& optimizer = spec->optimizer;
  LrSchedule& rate = spec->learning_rate;
  const auto read_type = [&](const YAML::Node& type, const std::string& path) {
    const int choice = Choice(type, path, faults, kOptimizers);
    if (choice >= 0) optimizer.kind = static_cast<OptimizerKind>(choice);
  };
  if (node.IsScalar()) return read_type(node, "optimizer");
  YamlMap map(node, "optimizer", faults);
  if (const YAML::Node type = map.Take("type"); type.IsDefined()) read_type(type, "optimizer.type");
  map.Read("lr", &rate.base);
  map.Read("momentum", &optimizer.momentum);
  map.Read("nesterov", &optimizer.nesterov);
  map.Read("beta1", &optimizer.beta1);
  map.Read("beta2", &optimizer.beta2);
  map.Read("epsilon", &optimizer.epsilon);
  map.Read("weight_decay", &optimizer.weight_decay);
  map.Read("clip_norm", &optimizer.clip_norm);
  if (const YAML::Node schedule = map.Take("schedule"); schedule.IsDefined()) {
    const int choice = Choice(schedule, "optimizer.schedule", faults, kLrSchedules);
    if (choice >= 0) rate.kind = static_cast<LrScheduleKind>(choice);
  }
  map.Read("warmup", &rate.warmup);
  map.Read("every", &rate.step_every);
  map.Read("gamma", &rate.gamma);
  map.Read("total", &rate.total);
  map.Finish();
}

// `none`, `stage`, or a list of node names.
void ReadRecompute(const YAML::Node& node, YamlFaults* faults, RecomputeSpec* out) {
  if (!node.IsDefined()) return;
  if (node.IsScalar()) {
    out->enabled = Choice(node, "recompute", faults, {"none", "stage"}) == 1;
    return;
  }
  if (!node.IsSequence())
    return faults->Add(node, "recompute", "must be none, stage or a list of node names");
  out->enabled = true;
  for (const YAML::Node& item : node) {
    out->checkpoints.emplace_back();
    const std::string path = fmt::format("recompute[{}]", out->checkpoints.size() - 1);
    if (!YamlText(item, path, faults, &out->checkpoints.back())) return;
  }
  if (out->checkpoints.empty())
    faults->Add(node, "recompute", "is an empty list; say stage to keep nothing, or none");
}

// `schedule` is a name, `schedule_file` and `schedule_table` bring a schedule with its name.
void ReadSchedule(YamlMap& map, YamlFaults* faults, JobSpec* spec) {
  const YAML::Node name = map.Take("schedule");
  map.Read("schedule_file", &spec->schedule_file);
  const YAML::Node table = map.Take("schedule_table");
  if (name.IsDefined() + !spec->schedule_file.empty() + table.IsDefined() > 1) {
    return faults->Add(name.IsDefined() ? name : table, "schedule",
                       "schedule, schedule_file and schedule_table exclude each other; use one");
  }
  if (name.IsDefined()) YamlText(name, "schedule", faults, &spec->schedule);
  std::string text;
  if (!table.IsDefined() || !YamlText(table, "schedule_table", faults, &text)) return;
  absl::Status status = SetScheduleTable(std::move(text), "schedule", spec);
  if (!status.ok()) {
    faults->Add(table, "schedule_table",
                std::string(status.message().data(), status.message().size()));
  }
}

JobSpec ReadJob(const YAML::Node& root, YamlFaults* faults) {
  JobSpec spec;
  YamlMap map(root, "", faults);
  map.Read("name", &spec.name);
  map.Read("model", &spec.model.path);
  ReadData(map.Take("data"), faults, &spec);
  ReadLoss(map.Take("loss"), faults, &spec);
  ReadOptimizer(map.Take("optimizer"), faults, &spec);
  map.Read("train", &spec.train_patterns);
  map.Read("freeze", &spec.freeze_patterns);
  map.Read("epochs", &spec.epochs);
  map.Read("batch_size", &spec.batch_size);
  map.Read("microbatches", &spec.microbatches);
  map.Read("shuffle", &spec.shuffle);
  map.Read("seed", &spec.seed);
  map.Read("ledger", &spec.ledger);
  map.Read("evaluate", &spec.evaluate);
  ReadSchedule(map, faults, &spec);
  map.Read("stages", &spec.stages);
  map.Read("chunks", &spec.chunks);
  map.Read("workers", &spec.workers);
  map.Read("max_replicas", &spec.max_replicas);
  map.Read("warmup", &spec.warmup);
  map.Read("plan", &spec.plan_file);
  map.Read("transport", &spec.transport);
  if (const YAML::Node action = map.Take("on_nonfinite"); action.IsDefined()) {
    const int choice = Choice(action, "on_nonfinite", faults, kOnNonFinite);
    if (choice >= 0) spec.on_nonfinite = static_cast<OnNonFinite>(choice);
  }
  ReadRecompute(map.Take("recompute"), faults, &spec.recompute);
  map.Read("replica_lr", &spec.replica_lr);
  map.ReadSeconds("start_timeout", &spec.start_timeout_s);
  map.Finish();
  return spec;
}

}  // namespace

absl::StatusOr<JobSpec> ParseJobYaml(std::string_view text, std::string_view file_name) {
  if (text.size() > kMaxJobFileBytes) {
    return InvalidArgument("{}: a job file of {} bytes is too long; the limit is {}", file_name,
                           text.size(), kMaxJobFileBytes);
  }
  try {
    YamlFaults faults(file_name);
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() != 1 || documents[0].IsNull()) {
      return InvalidArgument("{}: holds {} YAML documents, must hold one job", file_name,
                             documents.size() == 1 ? 0 : documents.size());
    }
    JobSpec spec = ReadJob(documents[0], &faults);
    PD_RETURN_IF_ERROR(faults.status());
    return spec;
  } catch (const YAML::Exception& e) {  // the library's only way to report bad syntax
    return InvalidArgument("{}:{}: not valid YAML: {}", file_name, e.mark.line + 1, e.msg);
  }
}

}  // namespace pipedream
