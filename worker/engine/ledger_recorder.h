// What one worker's executor notes in the ledgers of its stages (common/schedule/ledger.h), and
// digests of the weights now and then.
//
// Threads: the executor's only; whoever reads the ledgers does so when it has stopped. Borrows
// stages and backend.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "common/schedule/ledger.h"
#include "worker/engine/stage_state.h"

namespace pipedream {

// Of one stage. `slot` is the microbatch's activation slot, in which it is noted until its gradient
// enters an update.
class StageRecorder {
 public:
  StageRecorder(const StageState* stage, const KernelBackend* backend);

  void Forward(int32_t slot, WeightVersion read) { in_flight_[slot].forward = read.value(); }
  void BackwardInput(int32_t slot, WeightVersion read) { in_flight_[slot].backward = read.value(); }
  // The weight gradient, computed from `read`, has entered `update`. Without an input-gradient half
  // of its own (`fused`), that read the same.
  void Gradient(int32_t slot, MicrobatchId microbatch, WeightVersion read, bool fused,
                int64_t update);
  // The stage's latest version has been made for good (or loaded, for 0). Hashes the weights if that
  // one's digest is kept.
  absl::Status Published();

  const StageLedger& ledger() const { return ledger_; }

 private:
  const StageState& stage_;
  const KernelBackend& backend_;
  const int64_t updates_;               // of the run
  std::vector<LedgerEntry> in_flight_;  // by slot
  StageLedger ledger_;
};

class LedgerRecorder {
 public:
  // Notes the digests of the initial weights. `stages` by chunk.
  static absl::StatusOr<std::unique_ptr<LedgerRecorder>> Create(
      const std::vector<StageState*>& stages, const KernelBackend* backend);

  StageRecorder* of(size_t chunk) { return &stages_[chunk]; }
  std::vector<StageLedger> ledgers() const;

 private:
  std::vector<StageRecorder> stages_;  // by chunk
};

// A hash of the parameters in `version` of a stage's weights, in the order of their names and in
// row-major layout.
absl::StatusOr<uint64_t> DigestOf(const StageState& stage, const std::byte* version,
                                  const KernelBackend& backend);

}  // namespace pipedream
