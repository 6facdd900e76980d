#include "common/rpc/grpc_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "common/base/status.h"
#include "common/rpc/address.h"
#include "common/rpc/grpc_limits.h"
#include "common/rpc/grpc_log.h"

namespace pipedream {
namespace {

constexpr char kServiceConfig[] = R"({
  "methodConfig": [{
    "name": [
      {"service": "pipedream.v1.CoordinatorService", "method": "GetVersion"},
      {"service": "pipedream.v1.CoordinatorService", "method": "FindBlobs"},
      {"service": "pipedream.v1.CoordinatorService", "method": "SubmitJob"},
      {"service": "pipedream.v1.CoordinatorService", "method": "GetJob"},
      {"service": "pipedream.v1.CoordinatorService", "method": "ListJobs"},
      {"service": "pipedream.v1.CoordinatorService", "method": "CancelJob"},
      {"service": "pipedream.v1.CoordinatorService", "method": "ListWorkers"}
    ],
    "retryPolicy": {
      "maxAttempts": 4,
      "initialBackoff": "0.1s",
      "maxBackoff": "1s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }],
  "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
})";

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const RpcChannelOptions& options) {
  PD_ASSIGN_OR_RETURN(HostPort address, ParseAddress(options.address));
  if (!options.insecure && !IsLoopback(address.host)) {
    return InvalidArgument(
        "{} is not this machine and the connection would be plain text; pass "
        "--insecure on a trusted network",
        options.address);
  }
  RouteGrpcLog();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Also the time that one attempt to connect may take; a busy machine needs more than a moment.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // A proxy for the web must not come between daemons.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 1);
  arguments.SetServiceConfigJSON(kServiceConfig);
  return grpc::CreateCustomChannel(FormatAddress(address), grpc::InsecureChannelCredentials(),
                                   arguments);
}

void SetTimeout(grpc::ClientContext* context, Duration timeout) {
  context->set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                     gpr_time_from_nanos(timeout.count(), GPR_TIMESPAN)));
}

}  // namespace pipedream
