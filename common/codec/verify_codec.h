// Reports of verifications <-> messages.
#pragma once

#include <absl/status/statusor.h>

#include "common/job/verify_report.h"
#include "pipedream/v1/verify.pb.h"

namespace pipedream {

v1::VerifyReport ToProto(const VerifyReport& report);
absl::StatusOr<VerifyReport> FromProto(const v1::VerifyReport& message);

}  // namespace pipedream
