// Which way of training a ledger shows, and where it leaves the one that was promised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/schedule/ledger.h"

namespace pipedream {

// What a stage does with a microbatch under a policy, by formula alone: no table is asked. Where
// the policy says "the newest", that is what it comes to with WarmupDepth forwards ahead.
LedgerEntry ExpectedEntry(const ScheduleShape& shape, WeightPolicy policy, StageId stage,
                          MicrobatchId microbatch);

// "minibatch t reads version max(0, t-1), forward and backward alike"
std::string_view PolicyMeaning(WeightPolicy policy);

// The first place where a ledger is not as expected.
struct LedgerFault {
  StageId stage;
  ReplicaId replica;
  MicrobatchId microbatch{-1};  // -1: not of one
  std::string what{};           // "its forward reads", "its gradient enters"
  std::string expected{};
  std::string found{};
  bool operator==(const LedgerFault&) const = default;
  // "stage 1 replica 0, microbatch 7: its forward reads version 3, expected version 2"
  std::string ToString() const;
};

// Every microbatch with samples must be in the ledger of the stage replica that has it, once, and
// nothing else. Looks at no versions. The functions below REQUIRE that no stage is missing, and
// none too many.
std::optional<LedgerFault> FindMissing(const RunLedger& ledger, const ScheduleShape& shape,
                                       const IsFilled& filled);

// The first entry, stage by stage in the order of the ledger, that differs from the formulas.
std::optional<LedgerFault> FindDeparture(const RunLedger& ledger, const ScheduleShape& shape,
                                         WeightPolicy policy);

// The first entry that differs from what the programs of all workers say.
std::optional<LedgerFault> FindDeparture(const RunLedger& ledger,
                                         const std::vector<StageProgram>& programs,
                                         const IsFilled& filled);

// The policies whose formulas every entry follows; several where they come to the same for the
// shape, as on one stage.
std::vector<WeightPolicy> PoliciesFollowed(const RunLedger& ledger, const ScheduleShape& shape);

// Of two replicas of a stage that had other weights in the same version.
std::optional<LedgerFault> FindUnequalReplicas(const RunLedger& ledger);

// The first digest of `found` that differs from that of the same version in `expected`. `compared`
// becomes how many versions both have.
std::optional<LedgerFault> FindOtherWeights(const RunLedger& found, const RunLedger& expected,
                                            int64_t* compared);

}  // namespace pipedream
