#include "worker/ops/onednn/strided.h"

namespace pipedream::onednn {

Steps RowMajorSteps(const Shape& shape) {
  Steps steps(shape.rank());
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    steps[i] = step;
    step *= shape[i];
  }
  return steps;
}

Steps BroadcastSteps(const Shape& from, const Shape& to) {
  const Steps own = RowMajorSteps(from);
  Steps steps(to.rank(), 0);
  const int shift = to.rank() - from.rank();
  for (int i = 0; i < from.rank(); ++i) {
    if (from[i] != 1) steps[i + shift] = own[i];
  }
  return steps;
}

}  // namespace pipedream::onednn
