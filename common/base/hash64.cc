#include "common/base/hash64.h"

#include <cstring>

namespace pipedream {
namespace {

constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio

// All bits of `x` reach all bits of the result; invertible.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

}  // namespace

uint64_t Hash64(const void* data, size_t bytes, uint64_t seed) {
  const auto* p = static_cast<const unsigned char*>(data);
  // Independent lanes, so that multiplications overlap.
  constexpr size_t kLanes = 4, kBlock = kLanes * sizeof(uint64_t);
  uint64_t lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = Mix(seed + (i + 1) * kFactor);
  size_t left = bytes;
  for (; left >= kBlock; left -= kBlock, p += kBlock) {
    uint64_t words[kLanes];
    std::memcpy(words, p, kBlock);
    for (size_t i = 0; i < kLanes; ++i) {
      const uint64_t x = (lanes[i] ^ words[i]) * kFactor;
      lanes[i] = x ^ (x >> 29);
    }
  }
  uint64_t tail[kLanes] = {};
  std::memcpy(tail, p, left);
  uint64_t hash = Mix(bytes);
  for (size_t i = 0; i < kLanes; ++i) hash = Mix(hash ^ lanes[i]) ^ Mix(tail[i] + i);
  return Mix(hash);
}

}  // namespace pipedream
