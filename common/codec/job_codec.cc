#include "common/codec/job_codec.h"

#include <array>

#include "common/codec/enum_names.h"
#include "common/codec/field_check.h"
#include "common/codec/lists.h"
#include "common/codec/plan_codec.h"

namespace pipedream {
namespace {

constexpr std::array kFormats = {
    EnumName<ColumnFormat>{ColumnFormat::kAuto, "auto"},
    EnumName<ColumnFormat>{ColumnFormat::kIdx, "idx"},
    EnumName<ColumnFormat>{ColumnFormat::kNpy, "npy"},
    EnumName<ColumnFormat>{ColumnFormat::kText, "text"},
};
constexpr std::array kLosses = {
    EnumName<LossTerm::Kind>{LossTerm::Kind::kCrossEntropy, "cross_entropy"},
    EnumName<LossTerm::Kind>{LossTerm::Kind::kMse, "mse"},
    EnumName<LossTerm::Kind>{LossTerm::Kind::kOutput, "output"},
};
constexpr std::array kOptimizers = {
    EnumName<OptimizerKind>{OptimizerKind::kSgd, "sgd"},
    EnumName<OptimizerKind>{OptimizerKind::kAdam, "adam"},
    EnumName<OptimizerKind>{OptimizerKind::kAdamW, "adamw"},
};
constexpr std::array kLrSchedules = {
    EnumName<LrScheduleKind>{LrScheduleKind::kConstant, "constant"},
    EnumName<LrScheduleKind>{LrScheduleKind::kStep, "step"},
    EnumName<LrScheduleKind>{LrScheduleKind::kCosine, "cosine"},
};
constexpr std::array kOnNonFinite = {
    EnumName<OnNonFinite>{OnNonFinite::kStop, "stop"},
    EnumName<OnNonFinite>{OnNonFinite::kSkip, "skip"},
};

}  // namespace

v1::FileReference ToProto(const FileReference& file) {
  v1::FileReference message;
  message.set_path(file.path);
  message.set_sha256(file.sha256);
  message.set_bytes(file.bytes);
  return message;
}

absl::StatusOr<FileReference> FromProto(const v1::FileReference& message) {
  FieldCheck check("FileReference");
  check.Text("path", message.path()).Hash("sha256", message.sha256());
  check.Count("bytes", message.bytes());
  PD_RETURN_IF_ERROR(check.status());
  return FileReference{message.path(), message.sha256(), message.bytes()};
}

v1::ColumnSpec ToProto(const ColumnSpec& column) {
  v1::ColumnSpec message;
  message.set_name(column.name);
  message.set_path(column.path);
  message.set_format(std::string(NameOf(kFormats, column.format)));
  message.set_scale(column.scale);
  message.set_offset(column.offset);
  message.set_window(column.window);
  message.set_stride(column.stride);
  message.set_shift(column.shift);
  message.set_vocabulary_path(column.vocabulary_path);
  message.set_limit(column.limit);
  return message;
}

absl::StatusOr<ColumnSpec> FromProto(const v1::ColumnSpec& message) {
  FieldCheck check("ColumnSpec");
  check.Text("name", message.name()).Text("path", message.path());
  check.Text("vocabulary_path", message.vocabulary_path());
  check.Finite("scale", message.scale()).Finite("offset", message.offset());
  check.Count("window", message.window()).Count("stride", message.stride());
  check.Count("shift", message.shift()).Count("limit", message.limit());
  PD_RETURN_IF_ERROR(check.status());
  ColumnSpec column;
  PD_ASSIGN_OR_RETURN(column.format, ValueOf(kFormats, "ColumnSpec.format", message.format()));
  column.name = message.name();
  column.path = message.path();
  column.scale = message.scale();
  column.offset = message.offset();
  column.window = message.window();
  column.stride = message.stride();
  column.shift = message.shift();
  column.vocabulary_path = message.vocabulary_path();
  column.limit = message.limit();
  return column;
}

v1::LossTerm ToProto(const LossTerm& term) {
  v1::LossTerm message;
  message.set_kind(std::string(NameOf(kLosses, term.kind)));
  message.set_output(term.output);
  message.set_label(term.label);
  message.set_weight(term.weight);
  return message;
}

absl::StatusOr<LossTerm> FromProto(const v1::LossTerm& message) {
  FieldCheck check("LossTerm");
  check.Text("output", message.output()).Text("label", message.label());
  check.Finite("weight", message.weight());
  PD_RETURN_IF_ERROR(check.status());
  PD_ASSIGN_OR_RETURN(LossTerm::Kind kind, ValueOf(kLosses, "LossTerm.kind", message.kind()));
  return LossTerm{kind, message.output(), message.label(), message.weight()};
}

v1::OptimizerSpec ToProto(const OptimizerSpec& optimizer) {
  v1::OptimizerSpec message;
  message.set_kind(std::string(NameOf(kOptimizers, optimizer.kind)));
  message.set_momentum(optimizer.momentum);
  message.set_nesterov(optimizer.nesterov);
  message.set_beta1(optimizer.beta1);
  message.set_beta2(optimizer.beta2);
  message.set_epsilon(optimizer.epsilon);
  message.set_weight_decay(optimizer.weight_decay);
  message.set_clip_norm(optimizer.clip_norm);
  return message;
}

absl::StatusOr<OptimizerSpec> FromProto(const v1::OptimizerSpec& message) {
  FieldCheck check("OptimizerSpec");
  check.NotNegative("momentum", message.momentum()).NotNegative("beta1", message.beta1());
  check.NotNegative("beta2", message.beta2()).NotNegative("epsilon", message.epsilon());
  check.NotNegative("weight_decay", message.weight_decay());
  check.NotNegative("clip_norm", message.clip_norm());
  PD_RETURN_IF_ERROR(check.status());
  OptimizerSpec optimizer;
  PD_ASSIGN_OR_RETURN(optimizer.kind, ValueOf(kOptimizers, "OptimizerSpec.kind", message.kind()));
  optimizer.momentum = message.momentum();
  optimizer.nesterov = message.nesterov();
  optimizer.beta1 = message.beta1();
  optimizer.beta2 = message.beta2();
  optimizer.epsilon = message.epsilon();
  optimizer.weight_decay = message.weight_decay();
  optimizer.clip_norm = message.clip_norm();
  return optimizer;
}

v1::LrSchedule ToProto(const LrSchedule& schedule) {
  v1::LrSchedule message;
  message.set_kind(std::string(NameOf(kLrSchedules, schedule.kind)));
  message.set_base(schedule.base);
  message.set_warmup(schedule.warmup);
  message.set_step_every(schedule.step_every);
  message.set_gamma(schedule.gamma);
  message.set_total(schedule.total);
  return message;
}

absl::StatusOr<LrSchedule> FromProto(const v1::LrSchedule& message) {
  FieldCheck check("LrSchedule");
  check.NotNegative("base", message.base()).NotNegative("gamma", message.gamma());
  check.Count("warmup", message.warmup()).Count("step_every", message.step_every());
  check.Count("total", message.total());
  PD_RETURN_IF_ERROR(check.status());
  LrSchedule schedule;
  PD_ASSIGN_OR_RETURN(schedule.kind, ValueOf(kLrSchedules, "LrSchedule.kind", message.kind()));
  schedule.base = message.base();
  schedule.warmup = message.warmup();
  schedule.step_every = message.step_every();
  schedule.gamma = message.gamma();
  schedule.total = message.total();
  return schedule;
}

v1::JobSpec ToProto(const JobSpec& spec) {
  v1::JobSpec message;
  message.set_name(spec.name);
  *message.mutable_model() = ToProto(spec.model);
  AppendAll(spec.model_data, message.mutable_model_data());
  AppendAll(spec.train_columns, message.mutable_train_columns());
  AppendAll(spec.evaluation_columns, message.mutable_evaluation_columns());
  AppendAll(spec.data_files, message.mutable_data_files());
  AppendAll(spec.loss, message.mutable_loss());
  *message.mutable_optimizer() = ToProto(spec.optimizer);
  *message.mutable_learning_rate() = ToProto(spec.learning_rate);
  message.mutable_train_patterns()->Assign(spec.train_patterns.begin(), spec.train_patterns.end());
  message.mutable_freeze_patterns()->Assign(spec.freeze_patterns.begin(),
                                            spec.freeze_patterns.end());
  message.set_epochs(spec.epochs);
  message.set_batch_size(spec.batch_size);
  message.set_microbatches(spec.microbatches);
  message.set_shuffle(spec.shuffle);
  message.set_seed(spec.seed);
  message.set_ledger(spec.ledger);
  message.set_evaluate(spec.evaluate);
  message.set_schedule(spec.schedule);
  message.set_stages(spec.stages);
  message.set_workers(spec.workers);
  message.set_max_replicas(spec.max_replicas);
  message.mutable_warmup()->Assign(spec.warmup.begin(), spec.warmup.end());
  message.set_transport(spec.transport);
  message.set_replica_lr(spec.replica_lr);
  message.set_start_timeout_s(spec.start_timeout_s);
  message.set_on_nonfinite(std::string(NameOf(kOnNonFinite, spec.on_nonfinite)));
  message.set_chunks(spec.chunks);
  message.set_schedule_table(spec.schedule_table);
  if (spec.plan.has_value()) *message.mutable_plan() = ToProto(*spec.plan);
  message.set_plan_file(spec.plan_file);
  v1::RecomputeSpec& recompute = *message.mutable_recompute();
  recompute.set_enabled(spec.recompute.enabled);
  recompute.mutable_checkpoints()->Assign(spec.recompute.checkpoints.begin(),
                                          spec.recompute.checkpoints.end());
  return message;
}

namespace {

absl::Status CheckJobSpec(const v1::JobSpec& message) {
  FieldCheck check("JobSpec");
  check.Text("name", message.name()).Text("schedule", message.schedule());
  check.Text("transport", message.transport());
  check.Count("epochs", message.epochs()).Count("batch_size", message.batch_size());
  check.Count("microbatches", message.microbatches()).Count("stages", message.stages());
  check.Count("workers", message.workers()).Count("max_replicas", message.max_replicas());
  check.NotNegative("start_timeout_s", message.start_timeout_s());
  check.Listed("train_patterns", message.train_patterns_size(), 10'000);
  check.Listed("freeze_patterns", message.freeze_patterns_size(), 10'000);
  check.Listed("warmup", message.warmup_size(), 10'000);
  for (const std::string& pattern : message.train_patterns()) {
    check.Text("train_patterns", pattern);
  }
  for (const std::string& pattern : message.freeze_patterns()) {
    check.Text("freeze_patterns", pattern);
  }
  for (int warmup : message.warmup()) check.Count("warmup", warmup);
  check.Count("chunks", message.chunks());
  check.Text("schedule_table", message.schedule_table(), kMaxScheduleTableBytes);
  check.Text("plan_file", message.plan_file());
  check.Listed("recompute.checkpoints", message.recompute().checkpoints_size(), 10'000);
  for (const std::string& pattern : message.recompute().checkpoints()) {
    check.Text("recompute.checkpoints", pattern);
  }
  return check.status();
}

}  // namespace

absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& message) {
  PD_RETURN_IF_ERROR(CheckJobSpec(message));
  JobSpec spec;
  spec.name = message.name();
  PD_ASSIGN_OR_RETURN(spec.model, FromProto(message.model()));
  PD_RETURN_IF_ERROR(ReadAll(message.model_data(), "JobSpec.model_data", &spec.model_data));
  PD_RETURN_IF_ERROR(
      ReadAll(message.train_columns(), "JobSpec.train_columns", &spec.train_columns));
  PD_RETURN_IF_ERROR(ReadAll(message.evaluation_columns(), "JobSpec.evaluation_columns",
                             &spec.evaluation_columns));
  PD_RETURN_IF_ERROR(ReadAll(message.data_files(), "JobSpec.data_files", &spec.data_files));
  PD_RETURN_IF_ERROR(ReadAll(message.loss(), "JobSpec.loss", &spec.loss));
  PD_ASSIGN_OR_RETURN(spec.optimizer, FromProto(message.optimizer()));
  PD_ASSIGN_OR_RETURN(spec.learning_rate, FromProto(message.learning_rate()));
  spec.train_patterns.assign(message.train_patterns().begin(), message.train_patterns().end());
  spec.freeze_patterns.assign(message.freeze_patterns().begin(), message.freeze_patterns().end());
  spec.epochs = message.epochs();
  spec.batch_size = message.batch_size();
  spec.microbatches = message.microbatches();
  spec.shuffle = message.shuffle();
  spec.seed = message.seed();
  spec.ledger = message.ledger();
  spec.evaluate = message.evaluate();
  spec.schedule = message.schedule();
  spec.stages = message.stages();
  spec.workers = message.workers();
  spec.max_replicas = message.max_replicas();
  spec.warmup.assign(message.warmup().begin(), message.warmup().end());
  spec.transport = message.transport();
  spec.replica_lr = message.replica_lr();
  spec.start_timeout_s = message.start_timeout_s();
  // Jobs stored before the field existed have none.
  if (!message.on_nonfinite().empty()) {
    PD_ASSIGN_OR_RETURN(spec.on_nonfinite,
                        ValueOf(kOnNonFinite, "JobSpec.on_nonfinite", message.on_nonfinite()));
  }
  spec.chunks = message.chunks();
  spec.schedule_table = message.schedule_table();
  if (message.has_plan()) {
    PD_ASSIGN_OR_RETURN(spec.plan, FromProto(message.plan()));
  }
  spec.plan_file = message.plan_file();
  spec.recompute.enabled = message.recompute().enabled();
  spec.recompute.checkpoints.assign(message.recompute().checkpoints().begin(),
                                    message.recompute().checkpoints().end());
  return spec;
}

v1::RunShape ToProto(const RunShape& run) {
  v1::RunShape message;
  message.set_train_samples(run.train_samples);
  message.set_evaluation_samples(run.evaluation_samples);
  message.set_batch_size(run.batch_size);
  message.set_epochs(run.epochs);
  message.set_microbatches(run.microbatches);
  message.set_shuffle(run.shuffle);
  message.set_seed(run.seed);
  return message;
}

absl::StatusOr<RunShape> FromProto(const v1::RunShape& message) {
  FieldCheck check("RunShape");
  check.Count("train_samples", message.train_samples(), 1);
  check.Count("evaluation_samples", message.evaluation_samples());
  check.Count("batch_size", message.batch_size(), 1).Count("epochs", message.epochs(), 1);
  check.Count("microbatches", message.microbatches(), 1, message.batch_size());
  PD_RETURN_IF_ERROR(check.status());
  RunShape run;
  run.train_samples = message.train_samples();
  run.evaluation_samples = message.evaluation_samples();
  run.batch_size = message.batch_size();
  run.epochs = message.epochs();
  run.microbatches = message.microbatches();
  run.shuffle = message.shuffle();
  run.seed = message.seed();
  return run;
}

}  // namespace pipedream
