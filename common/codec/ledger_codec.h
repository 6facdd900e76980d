// Ledgers <-> messages. FromProto refuses what no run makes (VersionLedger::FromLoops).
#pragma once

#include <absl/status/statusor.h>

#include "common/schedule/ledger.h"
#include "pipedream/v1/schedule.pb.h"

namespace pipedream {

v1::StageLedger ToProto(const StageLedger& ledger);
absl::StatusOr<StageLedger> FromProto(const v1::StageLedger& message);

}  // namespace pipedream
