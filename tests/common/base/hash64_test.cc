#include "common/base/hash64.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <utility>
#include <vector>

namespace pipedream {
namespace {

TEST(Hash64Test, EveryBitAndEveryLengthCounts) {
  for (size_t bytes : {1, 7, 8, 31, 32, 33, 64, 100}) {
    std::vector<unsigned char> data(bytes);
    std::set<uint64_t> seen = {Hash64(data.data(), bytes), Hash64(data.data(), bytes - 1)};
    for (size_t bit = 0; bit < 8 * bytes; ++bit) {
      data[bit / 8] ^= 1 << bit % 8;
      EXPECT_TRUE(seen.insert(Hash64(data.data(), bytes)).second) << bytes << " bytes, bit " << bit;
      data[bit / 8] ^= 1 << bit % 8;
    }
    EXPECT_EQ(seen.size(), 8 * bytes + 2);
  }
}

TEST(Hash64Test, TheOrderOfWordsCountsAndThePlaceDoesNot) {
  std::vector<uint64_t> words(16);
  for (size_t i = 0; i < words.size(); ++i) words[i] = i;
  std::set<uint64_t> seen = {Hash64(words.data(), 128)};
  for (size_t i = 0; i < words.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      std::vector<uint64_t> swapped = words;
      std::swap(swapped[i], swapped[j]);
      const uint64_t hash = Hash64(swapped.data(), 128);
      EXPECT_TRUE(seen.insert(hash).second) << i << " and " << j;
      std::vector<char> elsewhere(131);
      std::memcpy(elsewhere.data() + 3, swapped.data(), 128);
      EXPECT_EQ(Hash64(elsewhere.data() + 3, 128), hash);
    }
  }
}

TEST(Hash64Test, TheSeedChains) {
  const char text[] = "weights";
  EXPECT_NE(Hash64(text, 7, 1), Hash64(text, 7, 2));
  EXPECT_NE(Hash64(text, 0, 1), Hash64(text, 0, 2));
}

}  // namespace
}  // namespace pipedream
