#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include "common/base/log.h"

namespace pipedream {

void RouteGrpcLog() {
  static const bool done = [] {
    gpr_set_log_function(
        [](gpr_log_func_args* line) { LogDebug("grpc: {}", std::string_view(line->message)); });
    return true;
  }();
  (void)done;
}

}  // namespace pipedream
