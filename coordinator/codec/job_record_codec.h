// Messages <-> values of the coordinator: jobs as they are stored and shown, workers, and what
// workers report. FromProto: kInvalidArgument names the field.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "coordinator/cluster/worker_info.h"
#include "coordinator/job/events.h"
#include "coordinator/job/job.h"
#include "pipedream/v1/coordinator.pb.h"
#include "pipedream/v1/job.pb.h"
#include "pipedream/v1/worker.pb.h"

namespace pipedream {

v1::JobState ToProto(JobState state);
absl::StatusOr<JobState> FromProto(v1::JobState state);

v1::Job ToProto(const Job& job);
absl::StatusOr<Job> FromProto(const v1::Job& message);

v1::JobEvent ToProto(const JobEvent& event);
JobEvent FromProto(const v1::JobEvent& message);

v1::DataAddress ToProto(const WorkerAddress& address);
v1::Worker ToProto(const WorkerInfo& worker);
// What it says about itself; state and assignment are the coordinator's.
WorkerInfo FromProto(const v1::Worker& message);

// Refuses unknown states and counts below zero; long lists are cut.
absl::StatusOr<StageReported> FromProto(const std::string& worker_id,
                                        const v1::StageReport& message);

// Equal for equal specs, across processes and restarts. 64 hexadecimal digits.
std::string SpecHash(const JobSpec& spec);

}  // namespace pipedream
