#pragma once

#include "pipedream/v1/worker.pb.h"
#include "worker/transport/connector.h"

namespace pipedream {

inline v1::DataAddress ToProto(const DataAddress& address) {
  v1::DataAddress message;
  message.set_host(address.host);
  message.set_port(address.port);
  message.set_host_id(address.host_id);
  message.set_unix_name(address.unix_name);
  message.set_process_id(address.process_id);
  return message;
}

inline DataAddress FromProto(const v1::DataAddress& message) {
  return {message.host(), message.port(), message.host_id(), message.unix_name(),
          message.process_id()};
}

}  // namespace pipedream
