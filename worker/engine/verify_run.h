// Verifies a finished run: by its ledger, whether every microbatch of every stage used the weights
// that the schedule promises; by replaying the beginning in one thread, whether losses and weights
// are what those semantics give, bit for bit.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/job/verify_report.h"
#include "common/schedule/ledger.h"
#include "worker/engine/simulation.h"
#include "worker/engine/stage_monitor.h"

namespace pipedream {

struct VerifyInputs {
  // The job as it ran; stop and interleaving are ignored. Programs, if given, are what its schedule
  // promises.
  SimulationOptions run;
  RunLedger ledger;             // that its workers wrote
  std::vector<LossSum> losses;  // that they reported, perhaps of several minibatches each
  std::string result_sha256;    // of the exported model
  int64_t minibatches = 0;      // to replay; 0: as many as take budget_s, two at least
  double budget_s = 10;
  std::string work_folder;  // exists; for the replayed model
  std::function<bool()> cancelled = [] { return false; };
};

// Errors: as Simulate, but a replay that stops on something not finite is a failed check;
// kCancelled.
absl::StatusOr<VerifyReport> VerifyRun(const VerifyInputs& inputs, Clock* clock);

}  // namespace pipedream
