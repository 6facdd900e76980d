// Two processes of one host: slots in shared memory, read in place; futexes wake, and the Unix
// socket of the handshake stays open so that the kernel tells of the peer's death.
#pragma once

#include <absl/status/statusor.h>

#include <memory>

#include "common/base/file.h"
#include "worker/transport/channel.h"
#include "worker/transport/shm/region.h"

namespace pipedream {

// `socket` is connected to the other end, with nothing left to read from the handshake.
std::unique_ptr<SendChannel> MakeShmSend(std::unique_ptr<ShmRegion> region, UniqueFd socket);
std::unique_ptr<ReceiveChannel> MakeShmReceive(std::unique_ptr<ShmRegion> region, UniqueFd socket);

}  // namespace pipedream
