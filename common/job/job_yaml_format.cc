#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "common/job/job_spec.h"

namespace pipedream {
namespace {

// Keys whose value is the default are left out, so that the file says what the user said.
template <typename T>
void Put(YAML::Emitter& out, const char* key, const T& value, const T& normal) {
  if (value != normal) out << YAML::Key << key << YAML::Value << value;
}
// Shortest form that reads back as the same number.
void Put(YAML::Emitter& out, const char* key, double value, double normal) {
  if (value != normal) out << YAML::Key << key << YAML::Value << fmt::format("{}", value);
}
void PutText(YAML::Emitter& out, const char* key, const std::string& value,
             const std::string& normal = "") {
  Put<std::string>(out, key, value, normal);
}
void PutName(YAML::Emitter& out, const char* key, std::string_view value) {
  out << YAML::Key << key << YAML::Value << std::string(value);
}

void PutColumns(YAML::Emitter& out, const char* key, const std::vector<ColumnSpec>& columns) {
  static constexpr const char* kFormats[] = {"auto", "idx", "npy", "text"};
  if (columns.empty()) return;
  const ColumnSpec normal;
  out << YAML::Key << key << YAML::Value << YAML::BeginMap;
  for (const ColumnSpec& column : columns) {
    out << YAML::Key << column.name << YAML::Value << YAML::BeginMap;
    out << YAML::Key << "file" << YAML::Value << column.path;
    if (column.format != ColumnFormat::kAuto)
      PutName(out, "format", kFormats[static_cast<int>(column.format)]);
    Put(out, "scale", column.scale, normal.scale);
    Put(out, "offset", column.offset, normal.offset);
    Put(out, "window", column.window, normal.window);
    Put(out, "stride", column.stride, normal.stride);
    Put(out, "shift", column.shift, normal.shift);
    PutText(out, "vocabulary", column.vocabulary_path);
    Put(out, "limit", column.limit, normal.limit);
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
}

void PutData(YAML::Emitter& out, const JobSpec& spec) {
  if (!spec.data_folder.empty()) return PutText(out, "data", spec.data_folder);
  if (spec.train_columns.empty() && spec.evaluation_columns.empty()) return;
  out << YAML::Key << "data" << YAML::Value << YAML::BeginMap;
  PutColumns(out, "train", spec.train_columns);
  PutColumns(out, "test", spec.evaluation_columns);
  out << YAML::EndMap;
}

void PutLoss(YAML::Emitter& out, const std::vector<LossTerm>& loss) {
  static constexpr const char* kKinds[] = {"cross_entropy", "mse", "output"};
  if (loss.empty()) return;
  out << YAML::Key << "loss" << YAML::Value << YAML::BeginSeq;
  for (const LossTerm& term : loss) {
    out << YAML::BeginMap;
    PutName(out, "type", kKinds[static_cast<int>(term.kind)]);
    PutText(out, "output", term.output);
    PutText(out, "label", term.label);
    Put(out, "weight", term.weight, 1.0);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void PutOptimizer(YAML::Emitter& out, const OptimizerSpec& optimizer, const LrSchedule& rate) {
  const OptimizerSpec normal;
  const LrSchedule normal_rate;
  out << YAML::Key << "optimizer" << YAML::Value << YAML::BeginMap;
  PutName(out, "type", ToString(optimizer.kind));
  out << YAML::Key << "lr" << YAML::Value << fmt::format("{}", rate.base);
  Put(out, "momentum", optimizer.momentum, normal.momentum);
  Put(out, "nesterov", optimizer.nesterov, normal.nesterov);
  Put(out, "beta1", optimizer.beta1, normal.beta1);
  Put(out, "beta2", optimizer.beta2, normal.beta2);
  Put(out, "epsilon", optimizer.epsilon, normal.epsilon);
  Put(out, "weight_decay", optimizer.weight_decay, normal.weight_decay);
  Put(out, "clip_norm", optimizer.clip_norm, normal.clip_norm);
  if (rate.kind != LrScheduleKind::kConstant) PutName(out, "schedule", ToString(rate.kind));
  Put(out, "warmup", rate.warmup, normal_rate.warmup);
  Put(out, "every", rate.step_every, normal_rate.step_every);
  Put(out, "gamma", rate.gamma, normal_rate.gamma);
  Put(out, "total", rate.total, normal_rate.total);
  out << YAML::EndMap;
}

// As a block where that reads back as it was.
void PutTable(YAML::Emitter& out, const std::string& text) {
  if (text.empty()) return;
  const bool block =
      text.back() == '\n' && text.find_first_not_of(" \n") == 0 && !text.ends_with("\n\n") &&
      std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
  out << YAML::Key << "schedule_table" << YAML::Value;
  if (block) {
    out << YAML::Literal << text;
  } else {
    out << YAML::DoubleQuoted << text;
  }
}

void PutSchedule(YAML::Emitter& out, const JobSpec& spec) {
  if (!spec.schedule_file.empty()) return PutText(out, "schedule_file", spec.schedule_file);
  if (!spec.schedule_table.empty()) return PutTable(out, spec.schedule_table);
  PutName(out, "schedule", spec.schedule);
}

void PutRecompute(YAML::Emitter& out, const RecomputeSpec& recompute) {
  if (!recompute.enabled) return;
  if (recompute.checkpoints.empty()) return PutName(out, "recompute", "stage");
  out << YAML::Key << "recompute" << YAML::Value << recompute.checkpoints;
}

}  // namespace

std::string FormatJobYaml(const JobSpec& spec) {
  const JobSpec normal;
  YAML::Emitter out;
  out << YAML::BeginMap;
  PutText(out, "name", spec.name);
  PutText(out, "model", spec.model.path);
  PutData(out, spec);
  PutLoss(out, spec.loss);
  PutOptimizer(out, spec.optimizer, spec.learning_rate);
  Put(out, "train", spec.train_patterns, {});
  Put(out, "freeze", spec.freeze_patterns, {});
  out << YAML::Key << "epochs" << YAML::Value << spec.epochs;
  out << YAML::Key << "batch_size" << YAML::Value << spec.batch_size;
  Put(out, "microbatches", spec.microbatches, normal.microbatches);
  Put(out, "shuffle", spec.shuffle, normal.shuffle);
  Put(out, "seed", spec.seed, normal.seed);
  Put(out, "ledger", spec.ledger, normal.ledger);
  Put(out, "evaluate", spec.evaluate, normal.evaluate);
  PutSchedule(out, spec);
  Put(out, "stages", spec.stages, normal.stages);
  Put(out, "chunks", spec.chunks, normal.chunks);
  Put(out, "workers", spec.workers, normal.workers);
  Put(out, "max_replicas", spec.max_replicas, normal.max_replicas);
  if (!spec.warmup.empty())
    out << YAML::Key << "warmup" << YAML::Value << YAML::Flow << spec.warmup;
  if (!spec.plan_file.empty()) PutText(out, "plan", spec.plan_file);
  PutText(out, "transport", spec.transport, normal.transport);
  if (spec.on_nonfinite == OnNonFinite::kSkip) PutName(out, "on_nonfinite", "skip");
  PutRecompute(out, spec.recompute);
  Put(out, "replica_lr", spec.replica_lr, normal.replica_lr);
  Put(out, "start_timeout", spec.start_timeout_s, normal.start_timeout_s);
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace pipedream
