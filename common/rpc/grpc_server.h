// A gRPC server with what every daemon of ours needs: health, reflection, keepalive, bounded
// messages, and no surprise about who may connect.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace pipedream {

struct RpcServerOptions {
  std::string address = "127.0.0.1:0";  // port 0: any free one
  // Plain text beyond loopback lets anyone on the network run jobs; it must be asked for.
  bool insecure = false;
  // Reflection lists the services to anyone who asks: always on loopback, elsewhere if set.
  bool reflection = false;
};

// Thread-safe.
class RpcServer {
 public:
  // Listens and serves. The services are borrowed and must outlive the server. Starts alive (health
  // service "liveness") but not ready ("" and "readiness"). kInvalidArgument: a bad address, or
  // plain text beyond loopback without `insecure`; kUnavailable: the port is taken.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const RpcServerOptions& options, const std::vector<grpc::Service*>& services);
  // Stops within about a second.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  int port() const { return port_; }
  // "127.0.0.1:34567": the host asked for with the port that was bound.
  const std::string& address() const { return address_; }

  void SetReady(bool ready);
  // Not ready from now on; lets calls in flight finish for `grace`, then cancels them. Idempotent.
  void Shutdown(Duration grace);
  // Until Shutdown is complete.
  void Wait();

 private:
  RpcServer(std::unique_ptr<grpc::Server> server, int port, std::string address);
  std::unique_ptr<grpc::Server> server_;
  int port_;
  std::string address_;
};

}  // namespace pipedream
