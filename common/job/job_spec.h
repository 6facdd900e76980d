// Everything a user says about a job. Read from YAML (-f job.yaml) or flags; travels as proto
// (codec); stored with the job.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/dataset.h"
#include "common/graph/training_graph.h"
#include "common/job/optimizer_spec.h"
#include "common/job/run_shape.h"
#include "common/plan/plan.h"

namespace pipedream {

// A file that the job reads: content-addressed in the coordinator's blob store after upload, or a
// path below the data root that all daemons share ("shared:train/images.idx3").
struct FileReference {
  std::string path;    // as the user wrote it
  std::string sha256;  // set once it is in the blob store
  int64_t bytes = 0;
  bool operator==(const FileReference&) const = default;
};

// What a loss or gradient that is not finite does: end the job, or make no update with it.
enum class OnNonFinite { kStop, kSkip };

// Which values of the forward pass backward computes again instead of keeping them.
struct RecomputeSpec {
  bool enabled = false;
  // Shell patterns of forward nodes whose outputs are kept all the same; empty: a stage keeps only
  // what enters it.
  std::vector<std::string> checkpoints;
  bool operator==(const RecomputeSpec&) const = default;
};

inline constexpr int64_t kMaxScheduleTableBytes = int64_t{1} << 20;

struct JobSpec {
  std::string name;
  FileReference model;
  std::vector<FileReference> model_data;       // external tensor files, path relative to the model
  std::vector<ColumnSpec> train_columns;       // ColumnSpec::path is the user's path
  std::vector<ColumnSpec> evaluation_columns;  // empty: no evaluation
  std::vector<FileReference> data_files;       // every file that the columns name, by path
  // Folder whose standard files become columns (FindColumns) once the model is known;
  // ResolveAgainstModel empties it, so it never travels.
  std::string data_folder;

  std::vector<LossTerm> loss;
  OptimizerSpec optimizer;
  LrSchedule learning_rate;
  std::vector<std::string> train_patterns;  // override which tensors train
  std::vector<std::string> freeze_patterns;

  int64_t epochs = 1;
  int64_t batch_size = 64;
  int microbatches = 1;
  bool shuffle = true;
  uint64_t seed = 0;
  bool ledger = true;  // keep which weights every microbatch used, for `pipedream verify`
  bool evaluate = true;

  std::string schedule = "pipedream";
  // Text of a schedule of the user's own, which `schedule` then names; see SetScheduleTable.
  std::string schedule_table;
  // File that holds such a text, as a job file names it; the client puts its content into
  // schedule_table and empties it, so it never travels.
  std::string schedule_file;
  int stages = 0;           // 0: the planner chooses
  int chunks = 0;           // stages per device; 0, 1: the schedule's least
  int workers = 0;          // 0: as many as are idle
  int max_replicas = 0;     // per stage; 0: no limit; 1: a straight pipeline
  std::vector<int> warmup;  // per stage; empty: the schedule's rule
  // A plan made before: stages, workers and warm-up are as it says (planner.h, EvaluatePlan). Its
  // schedule is `schedule`; stages, chunks, max_replicas and warmup must not be given too.
  std::optional<Plan> plan;
  // File that it was read from, as a job file names it; the client reads it.
  std::string plan_file;
  std::string transport = "auto";
  OnNonFinite on_nonfinite = OnNonFinite::kStop;
  RecomputeSpec recompute;
  bool replica_lr = true;        // scale a replicated stage's rate by r_s / r_0 (planner.md 4)
  double start_timeout_s = 600;  // waiting for workers longer than this fails the job; 0: never
  bool operator==(const JobSpec&) const = default;
};

// kInvalidArgument names the field by its path in the job file ("optimizer.lr"), the value, and
// what is allowed. Checks what needs no model and no data.
absl::Status Validate(const JobSpec& spec);
// Of that, only how the job is divided among workers.
absl::Status ValidateLayout(const JobSpec& spec);

// YAML job file (docs/job-file.md). kInvalidArgument names file, line, field and value; for an
// unknown key also the nearest known one. Not yet validated.
absl::StatusOr<JobSpec> ParseJobYaml(std::string_view text, std::string_view file_name);
// The inverse for everything that a job file can say (digests and sizes are not part of it).
std::string FormatJobYaml(const JobSpec& spec);

// Whether updates must know the norm of the whole model's gradient: to clip it or to skip together.
bool NeedsGlobalNorm(const JobSpec& spec);

RunShape MakeRunShape(const JobSpec& spec, int64_t train_samples, int64_t evaluation_samples);

}  // namespace pipedream
