#include "common/base/random.h"

#include "common/base/status.h"

namespace pipedream {

std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t stream, uint64_t counter) {
  constexpr uint32_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::array<uint32_t, 4> x = {
      static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
      static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{kMul0} * x[0];
    uint64_t p1 = uint64_t{kMul1} * x[2];
    x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(p0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

int64_t PermuteIndex(int64_t index, int64_t size, uint64_t seed, uint64_t stream) {
  PIPEDREAM_CHECK(index >= 0 && index < size);
  int half_bits = 1;
  while ((int64_t{1} << (2 * half_bits)) < size) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t value = static_cast<uint64_t>(index);
  do {  // the network permutes [0, 4^half_bits); walk until we are back below size
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t mixed = Philox(seed, stream, (round << 60) ^ right)[0] & mask;
      uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    value = (left << half_bits) | right;
  } while (value >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(value);
}

}  // namespace pipedream
