// Operators that join, part and pick.
#include "tests/support/reference_families.h"

namespace pipedream::reference {
namespace {

Result Concat(const Call& call) {
  auto axis = static_cast<size_t>(call.Int("axis"));
  ReferenceTensor y(call.OutShape(0).elements());
  int64_t before = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    ForEachIndex(call.InShape(i), [&](const Index& index, int64_t from) {
      Index to = index;
      to[axis] += before;
      y[Flat(call.OutShape(0), to)] = call.In(i)[from];
    });
    before += call.InShape(i)[static_cast<int>(axis)];
  }
  return Tensors{y};
}

Result Split(const Call& call) {
  auto axis = static_cast<size_t>(call.Int("axis"));
  Tensors parts;
  int64_t before = 0;
  for (int64_t size : call.Ints("split")) {
    Shape shape = call.InShape(0);
    shape[static_cast<int>(axis)] = size;
    ReferenceTensor part(shape.elements());
    ForEachIndex(shape, [&](const Index& index, int64_t to) {
      Index from = index;
      from[axis] += before;
      part[to] = call.In(0)[Flat(call.InShape(0), from)];
    });
    parts.push_back(std::move(part));
    before += size;
  }
  return parts;
}

// visit(offset in the gathered tensor, offset in the tensor that is picked from) for every element.
void ForEachPick(const Call& call, const Shape& x, const Shape& y,
                 const std::function<void(int64_t, int64_t)>& visit) {
  int64_t axis = call.Int("axis");
  const Shape& indices = call.InShape(1);
  ForEachIndex(y, [&](const Index& at, int64_t to) {
    Index which(at.begin() + axis, at.begin() + axis + indices.rank());
    auto row = static_cast<int64_t>(call.In(1)[Flat(indices, which)]);
    if (row < 0) row += x[static_cast<int>(axis)];
    Index from(at.begin(), at.begin() + axis);
    from.push_back(row);
    from.insert(from.end(), at.begin() + axis + indices.rank(), at.end());
    visit(to, Flat(x, from));
  });
}

Result Gather(const Call& call) {
  ReferenceTensor y(call.OutShape(0).elements());
  ForEachPick(call, call.InShape(0), call.OutShape(0),
              [&](int64_t to, int64_t from) { y[to] = call.In(0)[from]; });
  return Tensors{y};
}

Result GatherGrad(const Call& call) {
  ReferenceTensor dx(call.OutShape(0).elements());
  ForEachPick(call, call.OutShape(0), call.InShape(0),
              [&](int64_t from, int64_t to) { dx[to] += call.In(0)[from]; });
  return Tensors{dx};
}

Result Where(const Call& call) {
  ReferenceTensor y(call.OutShape(0).elements());
  ForEachIndex(call.OutShape(0), [&](const Index& index, int64_t i) {
    size_t chosen = call.In(0)[BroadcastFlat(call.InShape(0), index)] != 0 ? 1 : 2;
    y[i] = call.In(chosen)[BroadcastFlat(call.InShape(chosen), index)];
  });
  return Tensors{y};
}

Result WhereGrad(const Call& call) {
  ReferenceTensor dx(call.OutShape(0).elements());
  ForEachIndex(call.OutShape(0), [&](const Index& index, int64_t i) {
    bool holds = call.In(0)[BroadcastFlat(call.InShape(0), index)] != 0;
    dx[i] = holds == (call.Int("keep") != 0) ? call.In(1)[i] : 0;
  });
  return Tensors{dx};
}

}  // namespace

Result Selections(const Call& call) {
  if (call.Is("Concat")) return Concat(call);
  if (call.Is("Split")) return Split(call);
  if (call.Is("Gather")) return Gather(call);
  if (call.Is("GatherGrad")) return GatherGrad(call);
  if (call.Is("Where")) return Where(call);
  if (call.Is("WhereGrad")) return WhereGrad(call);
  return std::nullopt;
}

}  // namespace pipedream::reference
