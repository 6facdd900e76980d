#pragma once

#include <string>

#include "pipedream/v1/verify.pb.h"

namespace pipedream {

// The verdict in a line, then a row per check: CHECK RESULT DETAIL.
std::string FormatVerifyReport(const std::string& job_id, const v1::VerifyReport& report,
                               bool headers);

}  // namespace pipedream
