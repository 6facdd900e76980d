// Operators that move or add up elements.
#include <algorithm>

#include "tests/support/reference_families.h"

namespace pipedream::reference {
namespace {

Result Pad(const Call& call) {
  std::vector<int64_t> pads = call.Ints("pads");
  ReferenceTensor y(call.OutShape(0).elements(), call.Float("value"));
  ForEachIndex(call.InShape(0), [&](const Index& index, int64_t i) {
    Index to = index;
    for (size_t axis = 0; axis < to.size(); ++axis) to[axis] += pads[axis];
    y[Flat(call.OutShape(0), to)] = call.In(0)[i];
  });
  return Tensors{y};
}

Result Slice(const Call& call) {
  std::vector<int64_t> starts = call.Ints("starts");
  std::vector<int64_t> steps = call.Ints("steps");
  ReferenceTensor y(call.OutShape(0).elements());
  ForEachIndex(call.OutShape(0), [&](const Index& index, int64_t i) {
    Index from = index;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      from[axis] = starts[axis] + index[axis] * steps[axis];
    }
    y[i] = call.In(0)[Flat(call.InShape(0), from)];
  });
  return Tensors{y};
}

Result Transpose(const Call& call) {
  std::vector<int64_t> perm = call.Ints("perm");
  ReferenceTensor y(call.OutShape(0).elements());
  ForEachIndex(call.OutShape(0), [&](const Index& index, int64_t i) {
    Index from(index.size());
    for (size_t axis = 0; axis < index.size(); ++axis) from[perm[axis]] = index[axis];
    y[i] = call.In(0)[Flat(call.InShape(0), from)];
  });
  return Tensors{y};
}

Result Expand(const Call& call) {
  ReferenceTensor y(call.OutShape(0).elements());
  ForEachIndex(call.OutShape(0), [&](const Index& index, int64_t i) {
    y[i] = call.In(0)[BroadcastFlat(call.InShape(0), index)];
  });
  return Tensors{y};
}

Result Reduce(const Call& call) {
  std::vector<int64_t> axes = call.Ints("axes");
  Shape kept = call.InShape(0);
  for (int64_t axis : axes) kept[static_cast<int>(axis)] = 1;
  ReferenceTensor y(kept.elements());
  ForEachIndex(call.InShape(0), [&](const Index& index, int64_t i) {
    y[BroadcastFlat(kept, index)] += call.In(0)[i];
  });
  if (call.Is("ReduceMean")) {
    double count =
        static_cast<double>(call.InShape(0).elements()) / static_cast<double>(kept.elements());
    for (double& v : y) v /= count;
  }
  return Tensors{y};
}

Result SumTo(const Call& call) {
  ReferenceTensor y(call.OutShape(0).elements());
  ForEachIndex(call.InShape(0), [&](const Index& index, int64_t i) {
    y[BroadcastFlat(call.OutShape(0), index)] += call.In(0)[i];
  });
  return Tensors{y};
}

}  // namespace

Result Movements(const Call& call) {
  if (call.Is("Pad")) return Pad(call);
  if (call.Is("Slice")) return Slice(call);
  if (call.Is("Reshape")) return Tensors{call.In(0)};
  if (call.Is("Transpose")) return Transpose(call);
  if (call.Is("Expand")) return Expand(call);
  if (call.Is("ReduceMean") || call.Is("ReduceSum")) return Reduce(call);
  if (call.Is("SumTo")) return SumTo(call);
  return std::nullopt;
}

}  // namespace pipedream::reference
