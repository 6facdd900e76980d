// Stage programs <-> messages; instructions travel in their text form. FromProto bounds every count
// and names block and instruction of the first fault; whether the program is a correct schedule is
// the validator's business.
#pragma once

#include <absl/status/statusor.h>

#include "common/schedule/stage_program.h"
#include "pipedream/v1/schedule.pb.h"

namespace pipedream {

v1::ScheduleEdge ToProto(const ScheduleEdge& edge);
absl::StatusOr<ScheduleEdge> FromProto(const v1::ScheduleEdge& message);

v1::StageNeeds ToProto(const StageNeeds& needs);
absl::StatusOr<StageNeeds> FromProto(const v1::StageNeeds& message);

v1::ScheduleShape ToProto(const ScheduleShape& shape);
// Validated.
absl::StatusOr<ScheduleShape> FromProto(const v1::ScheduleShape& message);

v1::ProgramBlock ToProto(const ProgramBlock& block);
// Also: no number of the last iteration leaves the range of counts.
absl::StatusOr<ProgramBlock> FromProto(const v1::ProgramBlock& message);

v1::StageProgram ToProto(const StageProgram& program);
absl::StatusOr<StageProgram> FromProto(const v1::StageProgram& message);

}  // namespace pipedream
