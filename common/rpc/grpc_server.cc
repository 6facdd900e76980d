#include "common/rpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/rpc/address.h"
#include "common/rpc/grpc_limits.h"
#include "common/rpc/grpc_log.h"

namespace pipedream {
namespace {

// Adds reflection to one server; the library's own switch adds it to all of the process.
class ReflectionOption : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    // Several servers in one process: the library may have added it already.
    bool present = std::any_of(plugins->begin(), plugins->end(), [](const auto& plugin) {
      return plugin->name() == "proto_server_reflection";
    });
    if (!present) {
      plugins->push_back(std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>());
    }
  }
};

void SetArguments(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder->SetMaxSendMessageSize(kMaxMessageBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // Two daemons on one port must not share its connections silently.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Half the clients' interval, or idle watch streams die of GOAWAY "too_many_pings".
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kKeepaliveMs / 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const RpcServerOptions& options, const std::vector<grpc::Service*>& services) {
  PD_ASSIGN_OR_RETURN(HostPort address, ParseAddress(options.address));
  bool loopback = IsLoopback(address.host);
  if (!loopback && !options.insecure) {
    return InvalidArgument(
        "listening on {} without TLS would let anyone on the network use this "
        "service; listen on 127.0.0.1, or pass --insecure on a trusted network",
        options.address);
  }
  RouteGrpcLog();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  SetArguments(&builder);
  if (loopback || options.reflection) builder.SetOption(std::make_unique<ReflectionOption>());
  int port = 0;
  builder.AddListeningPort(FormatAddress(address), grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return Unavailable(
        "cannot listen on {}: the port is taken by another process, or the address "
        "does not belong to this machine",
        options.address);
  }
  address.port = port;
  auto result =
      std::unique_ptr<RpcServer>(new RpcServer(std::move(server), port, FormatAddress(address)));
  result->server_->GetHealthCheckService()->SetServingStatus("liveness", true);
  result->SetReady(false);
  return result;
}

RpcServer::RpcServer(std::unique_ptr<grpc::Server> server, int port, std::string address)
    : server_(std::move(server)), port_(port), address_(std::move(address)) {}

RpcServer::~RpcServer() { Shutdown(std::chrono::seconds(1)); }

void RpcServer::SetReady(bool ready) {
  auto* health = server_->GetHealthCheckService();
  health->SetServingStatus("", ready);
  health->SetServingStatus("readiness", ready);
}

void RpcServer::Shutdown(Duration grace) {
  SetReady(false);
  server_->Shutdown(gpr_time_from_nanos(grace.count(), GPR_TIMESPAN));
}

void RpcServer::Wait() { server_->Wait(); }

}  // namespace pipedream
