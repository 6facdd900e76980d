// A set of nodes by number, of a fixed universe.
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipedream {

class NodeSet {
 public:
  explicit NodeSet(int universe = 0) : words_((static_cast<size_t>(universe) + 63) / 64) {}

  void Insert(int node) { words_[node / 64] |= uint64_t{1} << (node % 64); }
  bool Contains(int node) const { return (words_[node / 64] >> (node % 64) & 1) != 0; }
  int Count() const {
    int count = 0;
    for (const uint64_t word : words_) count += std::popcount(word);
    return count;
  }
  // REQUIRES of the operations on two sets: one universe.
  bool IsSubsetOf(const NodeSet& other) const {
    for (size_t w = 0; w < words_.size(); ++w)
      if ((words_[w] & ~other.words_[w]) != 0) return false;
    return true;
  }
  NodeSet& operator|=(const NodeSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
    return *this;
  }
  NodeSet& operator&=(const NodeSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
    return *this;
  }
  auto operator<=>(const NodeSet&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, const NodeSet& set) {
    return H::combine(std::move(h), set.words_);
  }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace pipedream
