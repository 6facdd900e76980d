#include "common/job/job_schedule.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/repeat_table.h"

namespace pipedream {
namespace {

absl::StatusOr<int> ChunksOf(const JobSpec& spec, const ScheduleInfo& info) {
  if (spec.chunks <= 1) return info.min_chunks;
  if (spec.chunks >= info.min_chunks && spec.chunks <= info.max_chunks) return spec.chunks;
  if (info.max_chunks > 1) {
    return InvalidArgument("chunks: {}, but schedule '{}' takes {} to {} stages per device",
                           spec.chunks, info.name, info.min_chunks, info.max_chunks);
  }
  return InvalidArgument(
      "chunks: {}, but schedule '{}' has one stage per device; interleaved and zb_v take more",
      spec.chunks, info.name);
}

}  // namespace

std::vector<int> JobSchedule::device_of(int devices) const {
  if (table != nullptr) return table->shape.device_of;
  if (info->place == nullptr) return {};
  return info->place(devices, chunks);
}

absl::StatusOr<JobSchedule> ScheduleOf(const JobSpec& spec) {
  JobSchedule out;
  if (!spec.schedule_table.empty()) {
    PD_ASSIGN_OR_RETURN(ScheduleTable table, ParseScheduleFile(spec.schedule_table));
    out.policy = table.policy;
    out.table = std::make_shared<const ScheduleTable>(std::move(table));
    return out;
  }
  PD_ASSIGN_OR_RETURN(out.info, FindSchedule(spec.schedule));
  out.policy = out.info->policy;
  PD_ASSIGN_OR_RETURN(out.chunks, ChunksOf(spec, *out.info));
  return out;
}

absl::Status SetScheduleTable(std::string text, std::string_view source, JobSpec* spec) {
  if (std::ssize(text) > kMaxScheduleTableBytes) {
    return InvalidArgument("{}: a schedule of {} bytes is too long; the limit is {}", source,
                           text.size(), kMaxScheduleTableBytes);
  }
  absl::StatusOr<ScheduleTable> table = ParseScheduleFile(text);
  if (!table.ok()) return Annotate(table.status(), source);
  if (absl::Status status = Validate(table->shape); !status.ok()) return Annotate(status, source);
  spec->schedule_table = std::move(text);
  spec->schedule = table->name;
  if (spec->microbatches == 1) spec->microbatches = table->shape.microbatches_per_minibatch;
  return absl::OkStatus();
}

absl::StatusOr<ScheduleShape> ShapeOfRun(const JobSpec& spec, const RunShape& run,
                                         std::vector<int> replicas, std::vector<int> warmup,
                                         std::vector<int> device_of) {
  PD_ASSIGN_OR_RETURN(const JobSchedule schedule, ScheduleOf(spec));
  if (schedule.table != nullptr) warmup = schedule.table->shape.warmup;
  ScheduleShape shape =
      MakeScheduleShape(run, std::move(replicas), std::move(warmup), NeedsGlobalNorm(spec));
  shape.device_of = std::move(device_of);
  return shape;
}

int LeastWorkers(const JobSpec& spec) {
  const absl::StatusOr<JobSchedule> schedule = ScheduleOf(spec);
  int least = std::max(spec.workers, 1);
  if (spec.plan.has_value()) return std::max(least, spec.plan->workers());
  if (!schedule.ok()) return least;
  if (schedule->table != nullptr)
    return std::max(least, static_cast<int>(WorkersOf(schedule->table->shape).size()));
  return std::max(least, spec.stages / schedule->chunks);
}

absl::StatusOr<std::vector<StageProgram>> MakePrograms(const JobSpec& spec,
                                                       const ScheduleShape& shape) {
  PD_ASSIGN_OR_RETURN(const JobSchedule schedule, ScheduleOf(spec));
  if (schedule.table == nullptr) return MakePrograms(spec.schedule, shape);
  PD_ASSIGN_OR_RETURN(const ScheduleTable table, RepeatTable(*schedule.table, shape));
  return MakePrograms(table);
}

}  // namespace pipedream
