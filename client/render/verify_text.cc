#include "client/render/verify_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "client/render/table.h"
#include "common/base/units.h"

namespace pipedream {
namespace {

std::string_view Word(v1::VerifyCheck::Outcome outcome) {
  switch (outcome) {
    case v1::VerifyCheck::OUTCOME_PASSED:
      return "passed";
    case v1::VerifyCheck::OUTCOME_FAILED:
      return "FAILED";
    case v1::VerifyCheck::OUTCOME_SKIPPED:
      return "skipped";
    default:
      return "unknown";
  }
}

// "2bw", or "flush (here the same as stash)" where formulas coincide.
std::string Followed(const v1::VerifyReport& report) {
  std::vector<std::string> others;
  bool declared = false;
  for (const std::string& policy : report.followed()) {
    if (policy == report.declared())
      declared = true;
    else
      others.push_back(policy);
  }
  if (report.followed().empty())
    return report.verified() ? "its table" : "none of the known semantics";
  if (!declared) return fmt::format("{}", fmt::join(others, ", "));
  if (others.empty()) return report.declared();
  return fmt::format("{} (here the same as {})", report.declared(), fmt::join(others, ", "));
}

}  // namespace

std::string FormatVerifyReport(const std::string& job_id, const v1::VerifyReport& report,
                               bool headers) {
  std::string text = fmt::format(
      "{}: {}; schedule {} promises {}, the run followed {}; replayed {} of {} minibatches in "
      "{}\n\n",
      job_id, report.verified() ? "VERIFIED" : "NOT VERIFIED", report.schedule(), report.declared(),
      Followed(report), report.replayed(), report.minibatches(), FormatSeconds(report.replay_s()));
  TextTable table({{"CHECK"}, {"RESULT"}, {"DETAIL"}});
  for (const v1::VerifyCheck& check : report.checks())
    table.Add({check.name(), std::string(Word(check.outcome())), check.detail()});
  return text + table.ToString(headers);
}

}  // namespace pipedream
