#include "common/data/shape_fit.h"

#include <vector>

namespace pipedream {
namespace {

std::vector<int64_t> WithoutOnes(const Shape& shape) {
  std::vector<int64_t> out;
  for (const int64_t dim : shape.dims())
    if (dim != 1) out.push_back(dim);
  return out;
}

}  // namespace

bool ShapeFits(const Shape& have, const Shape& want) {
  const std::vector<int64_t> a = WithoutOnes(have), b = WithoutOnes(want);
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    // The smallest groups of axes with equal products; one side must be a single axis.
    int64_t left = a[i++], right = b[j++];
    int left_axes = 1, right_axes = 1;
    while (left != right) {
      if (left < right && i < a.size()) {
        left *= a[i++];
        ++left_axes;
      } else if (right < left && j < b.size()) {
        right *= b[j++];
        ++right_axes;
      } else {
        return false;
      }
    }
    if (left_axes > 1 && right_axes > 1) return false;
  }
  return i == a.size() && j == b.size();
}

}  // namespace pipedream
