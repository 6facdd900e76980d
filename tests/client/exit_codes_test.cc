#include "client/exit_codes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "client/commands/commands.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

using absl::StatusCode;

TEST(ExitCodes, EveryStatusCodeHasTheDocumentedOne) {
  const std::pair<StatusCode, int> expected[] = {
      {StatusCode::kOk, 0},
      {StatusCode::kUnknown, 1},
      {StatusCode::kInternal, 1},
      {StatusCode::kDataLoss, 1},
      {StatusCode::kInvalidArgument, 3},
      {StatusCode::kOutOfRange, 3},
      {StatusCode::kUnimplemented, 3},
      {StatusCode::kNotFound, 4},
      {StatusCode::kUnauthenticated, 5},
      {StatusCode::kPermissionDenied, 5},
      {StatusCode::kUnavailable, 6},
      {StatusCode::kDeadlineExceeded, 7},
      {StatusCode::kAlreadyExists, 8},
      {StatusCode::kFailedPrecondition, 8},
      {StatusCode::kAborted, 8},
      {StatusCode::kResourceExhausted, 8},
      {StatusCode::kCancelled, 130},
  };
  std::set<StatusCode> seen;
  for (auto [code, exit_code] : expected) {
    EXPECT_EQ(ExitCodeOf(absl::Status(code, "x")), exit_code) << StatusCodeName(code);
    seen.insert(code);
  }
  EXPECT_EQ(seen.size(), 17u);
}

TEST(ExitCodes, VersionSkewIsItsOwn) {
  EXPECT_EQ(ExitCodeOf(WithReason(FailedPrecondition("x"), "VERSION_SKEW")), 9);
}

TEST(ExitCodes, JobStates) {
  EXPECT_EQ(ExitCodeOf(v1::JOB_STATE_SUCCEEDED), 0);
  EXPECT_EQ(ExitCodeOf(v1::JOB_STATE_FAILED), 100);
  EXPECT_EQ(ExitCodeOf(v1::JOB_STATE_RUNNING), 101);
  EXPECT_EQ(ExitCodeOf(v1::JOB_STATE_QUEUED), 101);
  EXPECT_EQ(ExitCodeOf(v1::JOB_STATE_CANCELLED), 103);
}

TEST(ExitCodes, NamesAreThoseOfGrpc) {
  EXPECT_EQ(StatusCodeName(StatusCode::kNotFound), "NOT_FOUND");
  EXPECT_EQ(StatusCodeName(StatusCode::kUnauthenticated), "UNAUTHENTICATED");
  EXPECT_EQ(StatusCodeName(StatusCode::kUnavailable), "UNAVAILABLE");
}

// The table of docs/cli.md is the command's own.
TEST(ExitCodes, DocumentationHoldsTheTable) {
  std::ifstream file(PIPEDREAM_SOURCE_DIR "/docs/cli.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const ExitCodeRow& row : ExitCodeTable()) {
    std::string line = fmt::format("| {} | {} | {} |", static_cast<int>(row.code), row.meaning,
                                   row.grpc_codes.empty() ? "" : row.grpc_codes);
    EXPECT_NE(text.str().find(line), std::string::npos) << "docs/cli.md lacks: " << line;
  }
}

}  // namespace
}  // namespace pipedream
