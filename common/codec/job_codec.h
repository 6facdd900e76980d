// Job messages <-> common/job values. FromProto refuses what no sender of ours writes (unknown
// words, negative counts, non-finite numbers, endless lists) with kInvalidArgument naming the
// field; whether the values make a good job is Validate's business (common/job).
#pragma once

#include <absl/status/statusor.h>

#include "common/job/job_spec.h"
#include "common/job/run_shape.h"
#include "pipedream/v1/job.pb.h"

namespace pipedream {

v1::FileReference ToProto(const FileReference& file);
absl::StatusOr<FileReference> FromProto(const v1::FileReference& message);

v1::ColumnSpec ToProto(const ColumnSpec& column);
absl::StatusOr<ColumnSpec> FromProto(const v1::ColumnSpec& message);

v1::LossTerm ToProto(const LossTerm& term);
absl::StatusOr<LossTerm> FromProto(const v1::LossTerm& message);

v1::OptimizerSpec ToProto(const OptimizerSpec& optimizer);
absl::StatusOr<OptimizerSpec> FromProto(const v1::OptimizerSpec& message);

v1::LrSchedule ToProto(const LrSchedule& schedule);
absl::StatusOr<LrSchedule> FromProto(const v1::LrSchedule& message);

v1::JobSpec ToProto(const JobSpec& spec);
absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& message);

v1::RunShape ToProto(const RunShape& run);
// Also: batch size, epochs, microbatches and training samples are at least 1, since shapes are
// divided by them.
absl::StatusOr<RunShape> FromProto(const v1::RunShape& message);

}  // namespace pipedream
