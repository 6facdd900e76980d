#pragma once

#include <string>
#include <string_view>

#include "common/job/job_spec.h"
#include "common/job/run_shape.h"

namespace pipedream {

// Under which a measured profile can be used again: equal for jobs whose measurement would be the
// same. Covers the model's content, loss, optimizer, training patterns, microbatch size, device
// kind and the worker's version. 64 hexadecimal digits. Pure.
std::string ProfileKey(const JobSpec& spec, const RunShape& run, std::string_view device_kind,
                       std::string_view worker_version);

}  // namespace pipedream
