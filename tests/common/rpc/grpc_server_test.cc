#include "common/rpc/grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <gtest/gtest.h>

#include <atomic>

#include "common/base/status.h"
#include "common/rpc/grpc_channel.h"
#include "common/rpc/grpc_status.h"
#include "pipedream/v1/coordinator.grpc.pb.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

// Answers GetVersion with UNAVAILABLE `failures` times, then well; GetJob with a long error.
class Service : public v1::CoordinatorService::Service {
 public:
  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    if (++calls <= failures) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "busy");
    response->set_version("1");
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job*) override {
    return ToGrpcStatus(
        WithReason(InvalidArgument("{}", std::string(40'000, 'x')), "UNSUPPORTED_OPERATOR"));
  }
  grpc::Status RegisterWorker(grpc::ServerContext*, const v1::RegisterWorkerRequest*,
                              v1::RegisterWorkerResponse*) override {
    ++calls;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "busy");
  }
  std::atomic<int> calls{0}, failures{0};
};

class RpcServerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(server, RpcServer::Start({}, {&service}));
    ASSERT_OK_AND_ASSIGN(channel, OpenChannel({server->address()}));
    stub = v1::CoordinatorService::NewStub(channel);
    SetTimeout(&context, std::chrono::seconds(20));
  }
  // What grpc.health.v1.Health/Check says: 1 serving, 2 not serving; -code on an error. Written by
  // hand: the library does not install the message classes.
  int Health(const std::string& name) {
    grpc::ClientContext call;
    SetTimeout(&call, std::chrono::seconds(20));
    std::string bytes;
    if (!name.empty()) bytes = std::string("\x0a") + static_cast<char>(name.size()) + name;
    grpc::Slice slice(bytes);
    grpc::ByteBuffer request(&slice, 1), response;
    grpc::internal::RpcMethod method("/grpc.health.v1.Health/Check",
                                     grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
        channel.get(), method, &call, request, &response);
    if (!status.ok()) return -status.error_code();
    grpc::Slice out;
    EXPECT_TRUE(response.DumpToSingleSlice(&out).ok());
    return out.size() < 2 ? 0 : out.begin()[1];
  }
  Service service;
  std::unique_ptr<RpcServer> server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::CoordinatorService::Stub> stub;
  grpc::ClientContext context;
};

TEST_F(RpcServerTest, BindsAFreePortAndServes) {
  EXPECT_GT(server->port(), 0);
  v1::GetVersionResponse response;
  ASSERT_OK(FromGrpcStatus(stub->GetVersion(&context, {}, &response)));
  EXPECT_EQ(response.version(), "1");
}

TEST_F(RpcServerTest, HealthTellsAliveFromReady) {
  EXPECT_EQ(Health("liveness"), 1);
  EXPECT_EQ(Health("readiness"), 2);
  EXPECT_EQ(Health(""), 2);
  server->SetReady(true);
  EXPECT_EQ(Health("readiness"), 1);
  EXPECT_EQ(Health(""), 1);
  EXPECT_EQ(Health("no such"), -grpc::StatusCode::NOT_FOUND);
}

TEST_F(RpcServerTest, ReadsAreRepeatedWhileUnavailable) {
  service.failures = 3;
  v1::GetVersionResponse response;
  ASSERT_OK(FromGrpcStatus(stub->GetVersion(&context, {}, &response)));
  EXPECT_EQ(service.calls, 4);
}

TEST_F(RpcServerTest, ReadsAreTriedFourTimesAtMost) {
  service.failures = 100;
  v1::GetVersionResponse response;
  EXPECT_THAT(FromGrpcStatus(stub->GetVersion(&context, {}, &response)),
              StatusIs(absl::StatusCode::kUnavailable, "busy"));
  EXPECT_EQ(service.calls, 4);
}

TEST_F(RpcServerTest, WritesAreNotRepeated) {
  v1::RegisterWorkerResponse response;
  EXPECT_THAT(FromGrpcStatus(stub->RegisterWorker(&context, {}, &response)),
              StatusIs(absl::StatusCode::kUnavailable, "busy"));
  EXPECT_EQ(service.calls, 1);
}

TEST_F(RpcServerTest, LongErrorsArriveWhole) {
  v1::Job job;
  absl::Status status = FromGrpcStatus(stub->GetJob(&context, {}, &job));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, testing::SizeIs(40'000)));
  EXPECT_EQ(ReasonOf(status), "UNSUPPORTED_OPERATOR");
}

TEST_F(RpcServerTest, ATakenPortIsAnErrorThatNamesIt) {
  RpcServerOptions options;
  options.address = server->address();
  EXPECT_THAT(RpcServer::Start(options, {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(server->address())));
}

TEST_F(RpcServerTest, NobodyListensAfterShutdown) {
  server->Shutdown(std::chrono::milliseconds(100));
  v1::GetVersionResponse response;
  EXPECT_THAT(FromGrpcStatus(stub->GetVersion(&context, {}, &response)),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
}

TEST(RpcServer, PlainTextBeyondLoopbackMustBeAskedFor) {
  RpcServerOptions options;
  options.address = "0.0.0.0:0";
  EXPECT_THAT(RpcServer::Start(options, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--insecure")));
  EXPECT_THAT(OpenChannel({"10.1.2.3:7070"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--insecure")));
  EXPECT_OK(OpenChannel({"10.1.2.3:7070", true}).status());
}

}  // namespace
}  // namespace pipedream
