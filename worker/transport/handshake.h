// How a channel is opened on a fresh connection:
//
//   dialler  -> hello: protocol version, transport, name, secret, slots, message size
//   acceptor -> reply: yes (for shm with the memory's descriptor), or the error
//   dialler  -> one byte: it could set up its end
//
// Until the hello is whole and right, the dialler is a stranger: what it sends is bounded in size
// and time. Secrets appear in no message and no log.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "worker/transport/connector.h"
#include "worker/transport/wake.h"

namespace pipedream {

inline constexpr size_t kMaxHelloBytes = 2048;
inline constexpr char kConfirmByte = 0x11;

struct Hello {
  TransportKind kind = TransportKind::kTcp;
  ChannelOptions options;
};

// kInvalidArgument if name or secret are empty or too long, or the slots make no sense.
absl::Status CheckOptions(const ChannelOptions& options);

std::string EncodeHello(const Hello& hello);
// How many bytes the hello that starts with `begin` has; 0 while that cannot be told yet.
// kInvalidArgument if it is none: then the connection is not worth an answer. kFailedPrecondition,
// naming both, if it is of another protocol version.
absl::StatusOr<size_t> HelloBytes(std::string_view begin);
absl::StatusOr<Hello> DecodeHello(std::string_view whole);

std::string EncodeReply(const absl::Status& verdict);
// Reads the acceptor's verdict from `fd`; `*received` takes the descriptor that came with it. A
// refusal comes back with its code and message; kUnavailable if the peer does not answer properly.
absl::Status ReadReply(int fd, UniqueFd* received, Duration deadline,
                       const Cancellation& operation);

// Takes the same time wherever they differ.
bool SecretsEqual(std::string_view a, std::string_view b);

// What the acceptor, which announced `own`, says to a dialler that brings `theirs`.
// kPermissionDenied for the wrong secret, kFailedPrecondition naming both for other numbers.
absl::Status CompareOptions(const ChannelOptions& own, const ChannelOptions& theirs);

}  // namespace pipedream
