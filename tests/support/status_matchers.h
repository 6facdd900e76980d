// EXPECT_OK(status_or_statusor), ASSERT_OK_AND_ASSIGN(auto x, F()), and
// EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("x"))).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/status.h"

namespace pipedream {

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER_P2(StatusIs, code, message_matcher, "") {
  absl::Status status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         testing::ExplainMatchResult(
             message_matcher, std::string(status.message().data(), status.message().size()),
             result_listener);
}

}  // namespace pipedream

#define EXPECT_OK(expr)                                     \
  do {                                                      \
    absl::Status pd_ok = ::pipedream::StatusOf(expr);       \
    EXPECT_TRUE(pd_ok.ok()) << #expr << ": " << pd_ok.ToString(); \
  } while (false)
#define ASSERT_OK(expr)                                     \
  do {                                                      \
    absl::Status pd_ok = ::pipedream::StatusOf(expr);       \
    ASSERT_TRUE(pd_ok.ok()) << #expr << ": " << pd_ok.ToString(); \
  } while (false)
#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  ASSERT_OK_AND_ASSIGN_IMPL(PD_STATUS_CONCAT(pd_test_or_, __LINE__), lhs, expr)
#define ASSERT_OK_AND_ASSIGN_IMPL(tmp, lhs, expr)                     \
  auto tmp = (expr);                                                  \
  ASSERT_TRUE(tmp.ok()) << #expr << ": " << tmp.status().ToString();  \
  lhs = *std::move(tmp)
