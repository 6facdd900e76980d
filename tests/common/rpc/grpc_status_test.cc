#include "common/rpc/grpc_status.h"

#include <gtest/gtest.h>

#include "common/base/status.h"
#include "pipedream/v1/error.pb.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

TEST(GrpcStatus, EveryCodeSurvivesTheRoundTrip) {
  for (int code = 0; code <= 16; ++code) {
    absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "what happened");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
    EXPECT_EQ(ToGrpcStatus(status).error_code(), code);
  }
}

TEST(GrpcStatus, ReasonTravelsAsErrorInfo) {
  absl::Status status = WithReason(Internal("loss is nan"), "NON_FINITE_LOSS");
  grpc::Status wire = ToGrpcStatus(status);
  v1::RpcStatus details;
  ASSERT_TRUE(details.ParseFromString(wire.error_details()));
  EXPECT_EQ(details.code(), 13);
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  v1::ErrorInfo info;
  ASSERT_TRUE(info.ParseFromString(details.details(0).value()));
  EXPECT_EQ(info.reason(), "NON_FINITE_LOSS");
  EXPECT_EQ(info.domain(), "pipedream");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(wire)), "NON_FINITE_LOSS");
  EXPECT_EQ(FromGrpcStatus(wire), status);
}

TEST(GrpcStatus, UnreadableDetailsAreIgnored) {
  grpc::Status wire(grpc::StatusCode::NOT_FOUND, "no job", "\xff\xff\xff garbage");
  EXPECT_EQ(FromGrpcStatus(wire), absl::NotFoundError("no job"));
}

TEST(GrpcStatus, LongMessagesAreCutBetweenCharacters) {
  std::string text;
  while (text.size() < 2 * kMaxStatusMessageBytes) text += "ä";
  grpc::Status wire = ToGrpcStatus(absl::InvalidArgumentError(text));
  EXPECT_LE(wire.error_message().size(), kMaxStatusMessageBytes);
  EXPECT_THAT(wire.error_message(), HasSubstr("more bytes)"));
  size_t cut = wire.error_message().find(" ... (");
  ASSERT_NE(cut, std::string::npos);
  EXPECT_EQ(cut % 2, 0u);  // every character here has two bytes
}

TEST(GrpcStatus, UnreachablePeerIsNamedWithAdvice) {
  RpcPeer peer{"the coordinator", "127.0.0.1:7070", "Start one."};
  absl::Status status =
      FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "refused"), peer);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable,
                       testing::Eq("cannot reach the coordinator at 127.0.0.1:7070: refused. "
                                   "Start one.")));
  EXPECT_EQ(ReasonOf(status), "UNREACHABLE");
}

TEST(GrpcStatus, APeerThatSaysItIsUnavailableIsNotCalledUnreachable) {
  absl::Status said = WithReason(Unavailable("store is closing"), "SHUTTING_DOWN");
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(said), RpcPeer{"x", "y", "z"}), said);
}

}  // namespace
}  // namespace pipedream
