#include "common/codec/verify_codec.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

VerifyReport Report() {
  return {"2bw",
          "2bw",
          {"2bw", "flush"},
          100,
          7,
          1.5,
          {{"ledger", VerifyOutcome::kPassed, "complete"},
           {"losses", VerifyOutcome::kFailed, "minibatch 3"},
           {"result", VerifyOutcome::kSkipped, "7 of 100"}}};
}

TEST(VerifyCodec, RoundTripsEveryOutcome) {
  v1::VerifyReport arrived;
  ASSERT_TRUE(arrived.ParseFromString(ToProto(Report()).SerializeAsString()));
  EXPECT_FALSE(arrived.verified());
  ASSERT_OK_AND_ASSIGN(VerifyReport back, FromProto(arrived));
  EXPECT_EQ(back, Report());
}

TEST(VerifyCodec, SaysWhetherTheRunIsVerified) {
  VerifyReport report = Report();
  report.checks.erase(report.checks.begin() + 1);
  EXPECT_TRUE(ToProto(report).verified());
}

TEST(VerifyCodec, RefusesUnknownOutcomesAndBadCounts) {
  v1::VerifyReport message = ToProto(Report());
  message.mutable_checks(1)->set_outcome(v1::VerifyCheck::OUTCOME_UNSPECIFIED);
  EXPECT_THAT(FromProto(message), StatusIs(absl::StatusCode::kInvalidArgument,
                                           testing::HasSubstr("VerifyCheck.outcome 0 is unknown")));
  message = ToProto(Report());
  message.set_replayed(-1);
  EXPECT_THAT(FromProto(message), StatusIs(absl::StatusCode::kInvalidArgument,
                                           testing::HasSubstr("VerifyReport.replayed")));
}

}  // namespace
}  // namespace pipedream
