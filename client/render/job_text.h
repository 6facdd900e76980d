// Jobs and workers for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipedream/v1/coordinator.pb.h"

namespace pipedream {

// One row per job: ID NAME STATE EPOCH LOSS ACCURACY AGE REASON; wide adds schedule, partition,
// rates.
std::string FormatJobTable(const std::vector<v1::Job>& jobs, bool wide, bool headers,
                           int64_t now_us);
std::string FormatWorkerTable(const std::vector<v1::Worker>& workers, bool wide, bool headers,
                              int64_t now_us);

// Everything about a job, for `describe`.
std::string DescribeJob(const v1::Job& job, const std::vector<v1::JobEvent>& events);
// Last words after following a job: what came of it and what to do next.
std::string FormatOutcome(const v1::Job& job);
// "WORKER_LOST: message (stage 2, replica 0, worker w-3, operation F17)".
std::string FormatFailure(const v1::Failure& failure);

// "45s", "3m", "2h05m", "4d".
std::string FormatAge(int64_t from_us, int64_t now_us);

}  // namespace pipedream
