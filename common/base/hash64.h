// A fast hash of bytes: tells apart what differs by accident. Not for what others may choose.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipedream {

// Depends on the bytes and their order only, wherever they lie; on little-endian machines alike.
// `seed` chains: the hash of what came before.
uint64_t Hash64(const void* data, size_t bytes, uint64_t seed = 0);

}  // namespace pipedream
