// Which coordinator to talk to, and the connection to it.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "common/rpc/grpc_status.h"
#include "pipedream/v1/coordinator.grpc.pb.h"

namespace pipedream {

inline constexpr char kDefaultServer[] = "127.0.0.1:7070";

struct ServerChoice {
  std::string address;
  std::string source;  // "--server", "PIPEDREAM_SERVER", a file's path, "default"
};

struct ServerInputs {
  std::string flag;         // empty: not given
  std::string environment;  // value of PIPEDREAM_SERVER
  std::string config_path;  // may not exist
};

// --server > PIPEDREAM_SERVER > `server:` of the config file > the default. kInvalidArgument names
// the source of a bad address, or the line of a bad config file.
absl::StatusOr<ServerChoice> ChooseServer(const ServerInputs& inputs);
// With this process's environment; config.yaml in $PIPEDREAM_CONFIG or the XDG config folder.
ServerInputs ProcessServerInputs(const std::string& flag);

struct Connection {
  std::unique_ptr<v1::CoordinatorService::StubInterface> stub;
  RpcPeer peer;
  // Errors as the user should read them.
  absl::Status Result(const grpc::Status& status) const { return FromGrpcStatus(status, peer); }
};

// Opens no socket yet. kInvalidArgument: bad address, or another machine without `insecure`.
absl::StatusOr<Connection> Connect(const ServerChoice& server, bool insecure);

}  // namespace pipedream
