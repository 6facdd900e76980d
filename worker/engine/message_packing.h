// Between messages, which hold row-major tensors, and the places of a stage's tensors.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <span>
#include <vector>

#include "worker/engine/compiled_stage.h"

namespace pipedream {

// The message exchanged with `stage`; null if there is none.
CompiledMessage* FindMessage(std::vector<CompiledMessage>& messages, int stage);

// Writes message.bytes to `out`. Errors: the reorders'.
absl::Status PackMessage(CompiledMessage& message, const Bases& bases, std::byte* out);
// kInternal if `in` is too short: the two stages were cut from different graphs.
absl::Status UnpackMessage(const CompiledMessage& message, const Bases& bases,
                           std::span<const std::byte> in);

}  // namespace pipedream
