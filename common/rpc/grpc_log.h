// gRPC prints to stderr by itself, in its own form; sent through our log at level debug, since
// every failure also comes back as a status. Done once, by whoever opens a channel or server first.
#pragma once

namespace pipedream {

void RouteGrpcLog();

}  // namespace pipedream
