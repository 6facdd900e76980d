#include "common/job/job_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/status.h"
#include "common/job/job_schedule.h"

namespace pipedream {
namespace {

constexpr int kMostWorkers = 4096;

absl::Status CheckRange(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  if (high == std::numeric_limits<int64_t>::max())
    return InvalidArgument("{}: {} must be at least {}", field, value, low);
  return InvalidArgument("{}: {} must be {} to {}", field, value, low, high);
}

absl::Status CheckColumns(std::string_view field, const std::vector<ColumnSpec>& columns) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnSpec& column = columns[i];
    const std::string where = fmt::format("{}.{}", field, column.name);
    if (column.name.empty()) return InvalidArgument("{}: a column has no name", field);
    if (column.path.empty()) return InvalidArgument("{}.file: names no file", where);
    if (!std::isfinite(column.scale) || column.scale == 0)
      return InvalidArgument("{}.scale: {} must be finite and not 0", where, column.scale);
    if (!std::isfinite(column.offset))
      return InvalidArgument("{}.offset: {} must be finite", where, column.offset);
    for (const auto& [name, value] : {std::pair{"window", column.window},
                                      {"stride", column.stride},
                                      {"shift", column.shift},
                                      {"limit", column.limit}}) {
      if (value < 0) return InvalidArgument("{}.{}: {} must not be negative", where, name, value);
    }
    for (size_t j = 0; j < i; ++j)
      if (columns[j].name == column.name) return InvalidArgument("{}: given twice", where);
  }
  return absl::OkStatus();
}

absl::Status CheckLoss(const std::vector<LossTerm>& loss) {
  if (loss.empty()) {
    return InvalidArgument(
        "loss: missing; say cross_entropy, mse, or output:NAME for a scalar output of the model");
  }
  for (size_t i = 0; i < loss.size(); ++i) {
    const LossTerm& term = loss[i];
    const std::string where = loss.size() == 1 ? "loss" : fmt::format("loss[{}]", i);
    if (!std::isfinite(term.weight))
      return InvalidArgument("{}.weight: {} must be finite", where, term.weight);
    if (term.kind != LossTerm::Kind::kOutput) continue;
    if (term.output.empty())
      return InvalidArgument("{}.output: type output needs the name of a scalar output", where);
    if (!term.label.empty()) {
      return InvalidArgument("{}.label: '{}' is not read by type output; leave it out", where,
                             term.label);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLearning(const JobSpec& spec) {
  if (absl::Status status = Validate(spec.optimizer); !status.ok())
    return Annotate(status, "optimizer");
  LrSchedule schedule = spec.learning_rate;
  // Cosine without a total ends with the run, whose length is not known yet.
  if (schedule.kind == LrScheduleKind::kCosine && schedule.total == 0)
    schedule.total = std::max<int64_t>(schedule.warmup, 0) + 1;
  if (absl::Status status = Validate(schedule); !status.ok()) return Annotate(status, "optimizer");
  return absl::OkStatus();
}

// A table says everything about the layout; what the job says besides must be the same.
absl::Status CheckTable(const JobSpec& spec, const ScheduleTable& table) {
  const ScheduleShape& shape = table.shape;
  PD_RETURN_IF_ERROR(Validate(shape));
  auto agree = [&](std::string_view field, int64_t job, int64_t expected) {
    return job == expected ? absl::OkStatus()
                           : InvalidArgument("{}: {}, but the table of schedule '{}' has {}", field,
                                             job, table.name, expected);
  };
  if (spec.schedule != table.name) {
    return InvalidArgument("schedule: '{}', but the table given is of '{}'; leave one of them out",
                           spec.schedule, table.name);
  }
  if (spec.stages > 0) PD_RETURN_IF_ERROR(agree("stages", spec.stages, shape.stages()));
  PD_RETURN_IF_ERROR(agree("microbatches", spec.microbatches, shape.microbatches_per_minibatch));
  if (spec.chunks > 0) {
    return InvalidArgument(
        "chunks: {}, but the table of schedule '{}' says which device each "
        "stage is on; leave it out",
        spec.chunks, table.name);
  }
  if (!spec.warmup.empty()) {
    return InvalidArgument(
        "warmup: given, but the table of schedule '{}' says the order; leave it out", table.name);
  }
  const int workers = static_cast<int>(WorkersOf(shape).size());
  if (spec.workers > 0 && spec.workers < workers) {
    return InvalidArgument("workers: {}, but the table of schedule '{}' needs {}", spec.workers,
                           table.name, workers);
  }
  const int most = *std::max_element(shape.replicas.begin(), shape.replicas.end());
  if (spec.max_replicas > 0 && spec.max_replicas < most) {
    return InvalidArgument("max_replicas: {}, but the table of schedule '{}' has {}",
                           spec.max_replicas, table.name, most);
  }
  return absl::OkStatus();
}

absl::Status CheckKnownSchedule(const JobSpec& spec, const JobSchedule& schedule) {
  const int chunks = schedule.chunks;
  if (spec.stages % chunks != 0) {
    return InvalidArgument(
        "stages: {} on devices with {} stages each (schedule '{}'); use a "
        "multiple of {}",
        spec.stages, chunks, spec.schedule, chunks);
  }
  if (spec.workers > 0 && spec.stages / chunks > spec.workers) {
    if (chunks == 1) {
      return InvalidArgument("stages: {} stages need as many workers, but workers is {}",
                             spec.stages, spec.workers);
    }
    return InvalidArgument("stages: {} stages need {} workers, but workers is {}", spec.stages,
                           spec.stages / chunks, spec.workers);
  }
  if (schedule.info->place != nullptr && !spec.warmup.empty()) {
    return InvalidArgument("warmup: given, but schedule '{}' has a warm-up of its own",
                           spec.schedule);
  }
  if (spec.schedule == "data_parallel" && spec.stages > 1) {
    return InvalidArgument("stages: {}, but schedule 'data_parallel' has one; use another schedule",
                           spec.stages);
  }
  return absl::OkStatus();
}

absl::Status CheckRecompute(const JobSpec& spec, const JobSchedule& schedule) {
  if (!spec.recompute.enabled) return absl::OkStatus();
  for (const std::string& pattern : spec.recompute.checkpoints)
    if (pattern.empty()) return InvalidArgument("recompute: a name of a node is empty");
  if (schedule.policy != WeightPolicy::kSingle) return absl::OkStatus();
  return InvalidArgument(
      "recompute: not with schedule '{}', which keeps one version of the weights: backward would "
      "compute values again with newer weights than forward had; use 2bw, or leave it out",
      spec.schedule);
}

// What the plan says already.
absl::Status CheckPlan(const JobSpec& spec) {
  if (!spec.plan.has_value()) return absl::OkStatus();
  if (spec.plan->stages.empty()) return InvalidArgument("plan: has no stages");
  if (spec.plan->schedule != spec.schedule) {
    return InvalidArgument(
        "plan: is for schedule '{}', the job's is '{}'; leave schedule out, or plan for it",
        spec.plan->schedule, spec.schedule);
  }
  for (const auto& [field, given] :
       {std::pair("stages", spec.stages > 0), std::pair("chunks", spec.chunks > 1),
        std::pair("max_replicas", spec.max_replicas > 0),
        std::pair("warmup", !spec.warmup.empty())}) {
    if (given)
      return InvalidArgument("{}: the plan says it already; leave it out, or edit the plan", field);
  }
  const int wanted = spec.plan->workers();
  if (spec.workers > 0 && spec.workers != wanted) {
    return InvalidArgument("workers: {}, but the plan names {}; leave it out", spec.workers,
                           wanted);
  }
  return absl::OkStatus();
}

absl::Status CheckLayout(const JobSpec& spec) {
  if (std::ssize(spec.schedule_table) > kMaxScheduleTableBytes) {
    return InvalidArgument("schedule_table: {} bytes are too long; the limit is {}",
                           spec.schedule_table.size(), kMaxScheduleTableBytes);
  }
  absl::StatusOr<JobSchedule> found = ScheduleOf(spec);
  if (!found.ok()) {
    return spec.schedule_table.empty() ? found.status()
                                       : Annotate(found.status(), "schedule_table");
  }
  const JobSchedule& schedule = *found;
  if (StepsByRound(schedule.policy) && spec.microbatches > 1) {
    return InvalidArgument(
        "microbatches: {} does not go with schedule '{}', which updates after every minibatch; use "
        "1, or another schedule (2bw, 1f1b)",
        spec.microbatches, spec.schedule);
  }
  PD_RETURN_IF_ERROR(CheckPlan(spec));
  PD_RETURN_IF_ERROR(CheckRange("stages", spec.stages, 0, kMostWorkers));
  PD_RETURN_IF_ERROR(CheckRange("chunks", spec.chunks, 0, kMostWorkers));
  PD_RETURN_IF_ERROR(CheckRange("workers", spec.workers, 0, kMostWorkers));
  PD_RETURN_IF_ERROR(CheckRange("max_replicas", spec.max_replicas, 0, kMostWorkers));
  PD_RETURN_IF_ERROR(schedule.table != nullptr ? CheckTable(spec, *schedule.table)
                                               : CheckKnownSchedule(spec, schedule));
  PD_RETURN_IF_ERROR(CheckRecompute(spec, schedule));
  for (size_t s = 0; s < spec.warmup.size(); ++s)
    PD_RETURN_IF_ERROR(CheckRange(fmt::format("warmup[{}]", s), spec.warmup[s], 0, 1 << 20));
  if (!spec.warmup.empty() && spec.warmup.size() != static_cast<size_t>(spec.stages)) {
    return InvalidArgument("warmup: {} numbers given, one per stage is needed; stages is {}",
                           spec.warmup.size(), spec.stages);
  }
  for (const std::string_view known : {"auto", "local", "shm", "tcp"})
    if (spec.transport == known) return absl::OkStatus();
  return InvalidArgument("transport: '{}' is unknown; known are auto, local, shm, tcp",
                         spec.transport);
}

}  // namespace

absl::Status Validate(const JobSpec& spec) {
  constexpr int64_t kMany = std::numeric_limits<int64_t>::max();
  if (spec.model.path.empty()) return InvalidArgument("model: missing; name an ONNX file");
  if (spec.train_columns.empty() && spec.data_folder.empty()) {
    return InvalidArgument(
        "data: missing; name a folder, or the file of every input and label under data.train");
  }
  if (!spec.train_columns.empty() && !spec.data_folder.empty())
    return InvalidArgument("data: names both a folder and files; use one");
  PD_RETURN_IF_ERROR(CheckColumns("data.train", spec.train_columns));
  PD_RETURN_IF_ERROR(CheckColumns("data.test", spec.evaluation_columns));
  PD_RETURN_IF_ERROR(CheckLoss(spec.loss));
  PD_RETURN_IF_ERROR(CheckRange("epochs", spec.epochs, 1, int64_t{1} << 40));
  PD_RETURN_IF_ERROR(CheckRange("batch_size", spec.batch_size, 1, int64_t{1} << 31));
  PD_RETURN_IF_ERROR(CheckRange("microbatches", spec.microbatches, 1, kMany));
  if (spec.microbatches > spec.batch_size) {
    return InvalidArgument("microbatches: {} must not exceed batch_size {}", spec.microbatches,
                           spec.batch_size);
  }
  PD_RETURN_IF_ERROR(CheckLearning(spec));
  PD_RETURN_IF_ERROR(CheckLayout(spec));
  if (!std::isfinite(spec.start_timeout_s) || spec.start_timeout_s < 0) {
    return InvalidArgument("start_timeout: {} must be finite and not negative; 0 waits for ever",
                           spec.start_timeout_s);
  }
  return absl::OkStatus();
}

absl::Status ValidateLayout(const JobSpec& spec) {
  PD_RETURN_IF_ERROR(CheckRange("microbatches", spec.microbatches, 1, 1 << 20));
  return CheckLayout(spec);
}

bool NeedsGlobalNorm(const JobSpec& spec) {
  return spec.optimizer.clip_norm > 0 || spec.on_nonfinite == OnNonFinite::kSkip;
}

RunShape MakeRunShape(const JobSpec& spec, int64_t train_samples, int64_t evaluation_samples) {
  RunShape run;
  run.train_samples = train_samples;
  run.evaluation_samples = spec.evaluate ? evaluation_samples : 0;
  run.batch_size = spec.batch_size;
  run.epochs = spec.epochs;
  run.microbatches = spec.microbatches;
  run.shuffle = spec.shuffle;
  run.seed = spec.seed;
  return run;
}

}  // namespace pipedream
