#include "client/connection.h"

#include <yaml-cpp/yaml.h>

#include "client/environment.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {
namespace {

// `server:` of the file; empty if there is no file or no such key.
absl::StatusOr<std::string> ReadConfig(const std::string& path) {
  if (path.empty()) return "";
  absl::StatusOr<std::string> text = ReadFile(path, 1 << 20);
  if (absl::IsNotFound(text.status())) return "";
  PD_RETURN_IF_ERROR(text.status());
  try {
    std::string server;
    for (const auto& entry : YAML::Load(*text)) {
      if (entry.first.Scalar() != "server") {
        return InvalidArgument("{}:{}: unknown key '{}'; known is 'server'", path,
                               entry.first.Mark().line + 1, entry.first.Scalar());
      }
      server = entry.second.Scalar();
    }
    return server;
  } catch (const YAML::Exception& e) {
    return InvalidArgument("{}:{}: not valid YAML: {}", path, e.mark.line + 1, e.msg);
  }
}

}  // namespace

absl::StatusOr<ServerChoice> ChooseServer(const ServerInputs& inputs) {
  ServerChoice choice{kDefaultServer, "default"};
  if (!inputs.flag.empty()) {
    choice = {inputs.flag, "--server"};
  } else if (!inputs.environment.empty()) {
    choice = {inputs.environment, "PIPEDREAM_SERVER"};
  } else {
    PD_ASSIGN_OR_RETURN(std::string server, ReadConfig(inputs.config_path));
    if (!server.empty()) choice = {server, inputs.config_path};
  }
  absl::Status valid = ParseAddress(choice.address).status();
  if (!valid.ok()) return Annotate(valid, choice.source);
  return choice;
}

ServerInputs ProcessServerInputs(const std::string& flag) {
  ServerInputs inputs;
  inputs.flag = flag;
  inputs.environment = Env("PIPEDREAM_SERVER");
  inputs.config_path = Env("PIPEDREAM_CONFIG");
  if (inputs.config_path.empty()) {
    std::string folder = Env("XDG_CONFIG_HOME");
    if (folder.empty() && !Env("HOME").empty()) folder = Env("HOME") + "/.config";
    if (!folder.empty()) inputs.config_path = folder + "/pipedream/config.yaml";
  }
  return inputs;
}

absl::StatusOr<Connection> Connect(const ServerChoice& server, bool insecure) {
  PD_ASSIGN_OR_RETURN(auto channel, OpenChannel({server.address, insecure}));
  Connection connection;
  connection.stub = v1::CoordinatorService::NewStub(channel);
  connection.peer.what = "the coordinator";
  connection.peer.address = server.address;
  connection.peer.hint = fmt::format(
      "Is it running? Start one here with `pipedream local --workers 4`, or name another with "
      "--server or PIPEDREAM_SERVER (this address: {})",
      server.source);
  return connection;
}

}  // namespace pipedream
