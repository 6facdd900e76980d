#include "common/codec/verify_codec.h"

#include <utility>

#include "common/base/status.h"
#include "common/codec/field_check.h"

namespace pipedream {
namespace {

constexpr int kMaxChecks = 100;

}  // namespace

v1::VerifyReport ToProto(const VerifyReport& report) {
  v1::VerifyReport message;
  message.set_verified(report.verified());
  message.set_schedule(report.schedule);
  message.set_declared(report.declared);
  for (const std::string& policy : report.followed) message.add_followed(policy);
  message.set_minibatches(report.minibatches);
  message.set_replayed(report.replayed);
  message.set_replay_s(report.replay_s);
  for (const VerifyCheck& check : report.checks) {
    v1::VerifyCheck* out = message.add_checks();
    out->set_name(check.name);
    // The enumerators are in the same order.
    out->set_outcome(static_cast<v1::VerifyCheck::Outcome>(static_cast<int>(check.outcome) + 1));
    out->set_detail(check.detail);
  }
  return message;
}

absl::StatusOr<VerifyReport> FromProto(const v1::VerifyReport& message) {
  FieldCheck fields("VerifyReport");
  fields.Count("minibatches", message.minibatches());
  fields.Count("replayed", message.replayed());
  fields.NotNegative("replay_s", message.replay_s());
  fields.Listed("followed", message.followed_size(), kMaxChecks);
  fields.Listed("checks", message.checks_size(), kMaxChecks);
  PD_RETURN_IF_ERROR(fields.status());
  VerifyReport report;
  report.schedule = message.schedule();
  report.declared = message.declared();
  report.followed.assign(message.followed().begin(), message.followed().end());
  report.minibatches = message.minibatches();
  report.replayed = message.replayed();
  report.replay_s = message.replay_s();
  for (const v1::VerifyCheck& check : message.checks()) {
    const int outcome = static_cast<int>(check.outcome()) - 1;
    if (outcome < 0 || outcome > static_cast<int>(VerifyOutcome::kSkipped))
      return InvalidArgument("VerifyCheck.outcome {} is unknown", outcome + 1);
    report.checks.push_back({check.name(), static_cast<VerifyOutcome>(outcome), check.detail()});
  }
  return report;
}

}  // namespace pipedream
