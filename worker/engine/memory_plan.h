// Places temporaries in one arena by lifetime: two that live at the same time never overlap.
#pragma once

#include <cstddef>
#include <vector>

namespace pipedream {

inline constexpr size_t kBufferAlignment = 64;
inline size_t AlignUp(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

struct Lifetime {
  size_t bytes = 0;
  int first = 0;  // step that writes it
  int last = 0;   // last step that reads it, >= first
};

struct ArenaPlan {
  std::vector<size_t> offsets;  // per lifetime, multiples of kBufferAlignment
  size_t bytes = 0;             // of the arena
};

// Greedy by size, largest first, lowest free offset (Pisarchyk and Lee, 2020, section 5.2).
// Deterministic.
ArenaPlan PlanArena(const std::vector<Lifetime>& lifetimes);

}  // namespace pipedream
