#pragma once

#include "common/graph/types.h"

namespace pipedream {

// True if the shapes differ only by axes of length 1 and by grouping of neighbouring axes:
// [28, 28] fits [1, 28, 28] and [784], but [28, 28, 3] does not fit [3, 28, 28].
bool ShapeFits(const Shape& have, const Shape& want);

}  // namespace pipedream
