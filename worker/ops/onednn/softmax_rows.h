// Softmax of one row, shared with the loss.
#pragma once

#include <cstdint>

namespace pipedream::onednn {

// REQUIRES: n >= 1. With NaN in x the result is some element; SoftmaxRow then gives NaN anyway.
float RowMax(const float* x, int64_t n);
// y = softmax(x), which may be x itself; returns the sum of exp(x - max).
double SoftmaxRow(const float* x, float max, float* y, int64_t n);

}  // namespace pipedream::onednn
