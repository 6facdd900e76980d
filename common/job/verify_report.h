// What verifying a finished run found. Values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace pipedream {

enum class VerifyOutcome {
  kPassed,
  kFailed,
  kSkipped,  // there was nothing to compare with
};

struct VerifyCheck {
  std::string name;
  VerifyOutcome outcome = VerifyOutcome::kPassed;
  std::string detail;  // what was compared, the first difference, or why nothing was
  bool operator==(const VerifyCheck&) const = default;
};

struct VerifyReport {
  std::string schedule;               // that the job names
  std::string declared;               // how that reads weights: "2bw" (PolicyName)
  std::vector<std::string> followed;  // the ways whose formulas every microbatch followed
  int64_t minibatches = 0;            // of the run
  int64_t replayed = 0;               // of them
  double replay_s = 0;
  std::vector<VerifyCheck> checks;
  bool operator==(const VerifyReport&) const = default;

  bool verified() const {
    return std::ranges::none_of(
        checks, [](const VerifyCheck& check) { return check.outcome == VerifyOutcome::kFailed; });
  }
};

}  // namespace pipedream
