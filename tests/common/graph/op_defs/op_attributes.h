// Short ways to write the attributes of one node.
#pragma once

#include <limits>
#include <string_view>

#include "tests/common/graph/test_graphs.h"

namespace pipedream {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline Attributes Float(std::string_view name, double value) {
  return Attributes().Set(name, value);
}
inline Attributes List(std::string_view name, Ints value) { return Attributes().Set(name, value); }
inline Attributes Axis(int64_t axis) { return Attributes().Set("axis", axis); }
inline Attributes LayerNorm(int64_t axis) { return Axis(axis).Set("epsilon", 0.1); }
inline Attributes Slice(Ints starts, Ints ends, Ints steps) {
  return Attributes().Set("starts", starts).Set("ends", ends).Set("steps", steps);
}

}  // namespace pipedream
