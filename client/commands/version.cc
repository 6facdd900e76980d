#include "client/commands/calls.h"
#include "client/render/json.h"
#include "client/render/yaml.h"
#include "common/base/status.h"

namespace pipedream {

absl::StatusOr<int> Version(const CommandContext& context, bool client_only) {
  std::string server;
  absl::Status status;
  std::string address;
  if (!client_only) {
    PD_ASSIGN_OR_RETURN(Connection connection, ConnectTo(context));
    address = connection.peer.address;
    status = CheckVersion(connection, &server);
  }
  const Terminal& terminal = context.terminal;
  if (terminal.machine_readable()) {
    std::string json = VersionJson(ClientVersion(), server);
    *terminal.out << (terminal.format == OutputFormat::kJson ? json : JsonToYaml(json));
  } else {
    *terminal.out << fmt::format("client {}\n", ClientVersion());
    if (!server.empty()) *terminal.out << fmt::format("coordinator {} at {}\n", server, address);
  }
  PD_RETURN_IF_ERROR(status);
  return 0;
}

}  // namespace pipedream
