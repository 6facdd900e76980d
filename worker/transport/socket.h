// The socket calls that the transports share. All descriptors are close-on-exec and non-blocking;
// nothing raises SIGPIPE.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "worker/transport/wake.h"

namespace pipedream {

// kUnavailable names the address and the reason. *bound_port is the real one.
absl::StatusOr<UniqueFd> ListenTcp(const std::string& host, int port, int* bound_port);
absl::StatusOr<UniqueFd> ListenUnix(const std::string& abstract_name);

// kUnavailable if nobody listens or the host is unknown; kDeadlineExceeded; the operation's cause.
absl::StatusOr<UniqueFd> DialTcp(const std::string& host, int port, Duration deadline,
                                 const Cancellation& operation);
absl::StatusOr<UniqueFd> DialUnix(const std::string& abstract_name, Duration deadline,
                                  const Cancellation& operation);

// No delay for small messages, and a dead host is noticed within half a minute.
void TuneTcp(int fd);
// Limits how fast `fd` sends.
absl::Status SetPacing(int fd, double bytes_per_s);

// kUnavailable if the peer hangs up first.
absl::Status ReadExactly(int fd, std::span<char> bytes, Duration deadline,
                         const Cancellation& operation);
absl::Status WriteAll(int fd, std::string_view bytes, Duration deadline,
                      const Cancellation& operation);
// At least one byte of a Unix socket, and the descriptor that comes with it, if one does.
absl::StatusOr<size_t> ReadWithFd(int fd, std::span<char> bytes, UniqueFd* received,
                                  Duration deadline, const Cancellation& operation);
// All bytes at once (they are few), with a descriptor unless it is negative. Never blocks.
absl::Status SendNow(int fd, std::string_view bytes, int descriptor = -1);

// True once the peer has closed its end. Does not block; data not yet read counts as hang-up too
// (callers ask only where the peer has nothing to say).
bool HungUp(int fd);

}  // namespace pipedream
