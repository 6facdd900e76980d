// Across hosts: a ring of slots and one thread at each end. The thread owns the socket; the
// executor touches only the ring, so it never waits for the network.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "common/base/file.h"
#include "worker/transport/channel.h"

namespace pipedream {

// `socket` is connected to the other end, non-blocking, with nothing left to read from the
// handshake. kResourceExhausted without memory for the slots.
//
// The sender's destructor first delivers what was committed, unless the channel failed or the
// peer stops reading for some seconds.
absl::StatusOr<std::unique_ptr<SendChannel>> MakeTcpSend(UniqueFd socket, const std::string& name,
                                                         size_t slots, size_t max_message_bytes);
absl::StatusOr<std::unique_ptr<ReceiveChannel>> MakeTcpReceive(UniqueFd socket,
                                                               const std::string& name,
                                                               size_t slots,
                                                               size_t max_message_bytes);

}  // namespace pipedream
