// Integers that do not mix: a StageId is never a ReplicaId. Ordered, hashable, printable with fmt.
#pragma once

#include <fmt/core.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace pipedream {

template <typename Tag, typename Rep>
class StrongInt {
 public:
  using rep = Rep;
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const StrongInt&) const = default;
  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }
  constexpr StrongInt operator+(Rep n) const { return StrongInt(value_ + n); }
  constexpr StrongInt operator-(Rep n) const { return StrongInt(value_ - n); }
  constexpr Rep operator-(StrongInt other) const { return value_ - other.value_; }

 private:
  Rep value_ = 0;
};

using StageId = StrongInt<struct StageTag, int32_t>;
using ReplicaId = StrongInt<struct ReplicaTag, int32_t>;
// Microbatches are numbered over the whole run, 0, 1, 2 ...
using MicrobatchId = StrongInt<struct MicrobatchTag, int64_t>;
// Parameters of a stage after that many updates; 0 = the initial weights.
using WeightVersion = StrongInt<struct WeightVersionTag, int64_t>;

}  // namespace pipedream

template <typename Tag, typename Rep>
struct fmt::formatter<pipedream::StrongInt<Tag, Rep>> : fmt::formatter<Rep> {
  template <typename Context>
  auto format(pipedream::StrongInt<Tag, Rep> id, Context& context) const {
    return fmt::formatter<Rep>::format(id.value(), context);
  }
};

template <typename Tag, typename Rep>
struct std::hash<pipedream::StrongInt<Tag, Rep>> {
  size_t operator()(pipedream::StrongInt<Tag, Rep> id) const {
    return std::hash<Rep>()(id.value());
  }
};
