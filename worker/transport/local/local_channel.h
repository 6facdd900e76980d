// Both ends in one process: the ring itself.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "worker/transport/connector.h"

namespace pipedream {

// As MakeLocalChannel, with a name for errors and the sizes checked.
absl::StatusOr<LocalChannel> CreateLocalChannel(const std::string& name, size_t slots,
                                                size_t max_message_bytes);

}  // namespace pipedream
