// Client channels: keepalive, bounded messages, and retries where repeating is harmless.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "common/base/clock.h"

namespace pipedream {

struct RpcChannelOptions {
  std::string address;  // "host:port"
  // Connections to other machines are plain text; it must be asked for.
  bool insecure = false;
};

// Unary calls have this long unless something else is known.
inline constexpr Duration kCallTimeout = std::chrono::seconds(10);
inline constexpr Duration kSubmitTimeout = std::chrono::seconds(60);

// A channel of its own connection (not shared through the library's pool, so that closing it really
// closes). Connects at the first call. Coordinator calls that only read, and those that are
// idempotent by key or nature (submit, cancel), are tried up to 4 times while the peer is
// UNAVAILABLE, with jittered backoff from 0.1 s; nothing else is repeated. kInvalidArgument: bad
// address, or not loopback without `insecure`.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const RpcChannelOptions& options);

// The call ends with DEADLINE_EXCEEDED after `timeout`. Every unary call sets one.
void SetTimeout(grpc::ClientContext* context, Duration timeout);

}  // namespace pipedream
