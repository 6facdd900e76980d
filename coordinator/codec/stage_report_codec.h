// The parts of progress and reports; see job_record_codec.h.
#pragma once

#include "coordinator/job/job.h"
#include "pipedream/v1/job.pb.h"

namespace pipedream {

v1::LossPoint ToProto(const JobLoss& loss);
JobLoss FromProto(const v1::LossPoint& message);
v1::EvaluationResult ToProto(const JobEvaluation& evaluation);
JobEvaluation FromProto(const v1::EvaluationResult& message);
v1::StageProgress ToProto(const StageStatus& status);
StageStatus FromProto(const v1::StageProgress& message);
v1::Failure ToProto(const JobFailure& failure);
JobFailure FromProto(const v1::Failure& message);

}  // namespace pipedream
