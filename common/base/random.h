// Counter-based randomness (Philox 4x32-10; Salmon et al., SC 2011): a value is a pure function of
// (seed, stream, counter), never of who asks or when.
#pragma once

#include <array>
#include <cstdint>

namespace pipedream {

std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t stream, uint64_t counter);

// Uniform in [0, 1) with 24 bits.
inline float UniformFloat(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// The image of `index` under a pseudo-random permutation of [0, size) that (seed, stream) choose:
// a Feistel network with cycle walking; constant memory. REQUIRES: 0 <= index < size.
int64_t PermuteIndex(int64_t index, int64_t size, uint64_t seed, uint64_t stream);


}  // namespace pipedream
