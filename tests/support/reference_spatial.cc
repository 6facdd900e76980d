// Convolutions and pools, by visiting every pair of an output element and an input element that a
// window joins.
#include <limits>

#include "tests/support/reference_families.h"

namespace pipedream::reference {
namespace {

// Calls visit(tap, x spatial index) for the taps of the window at `out` that lie in the input.
void ForEachTap(const Call& call, const Shape& x, const Index& out,
                const std::function<void(const Index& tap, const Index& position)>& visit) {
  std::vector<int64_t> strides = call.Ints("strides");
  std::vector<int64_t> pads = call.Ints("pads");
  std::vector<int64_t> dilations = call.Ints("dilations");
  Shape kernel(call.Ints("kernel"));
  ForEachIndex(kernel, [&](const Index& tap, int64_t) {
    Index position;
    for (int i = 0; i < kernel.rank(); ++i) {
      int64_t p =
          out[i + 2] * strides[i] - pads[i] + tap[i] * (dilations.empty() ? 1 : dilations[i]);
      if (p < 0 || p >= x[i + 2]) return;
      position.push_back(p);
    }
    visit(tap, position);
  });
}

Index Join(int64_t n, int64_t c, const Index& rest) {
  Index index = {n, c};
  index.insert(index.end(), rest.begin(), rest.end());
  return index;
}

void ForEachProduct(const Call& call, const Shape& x, const Shape& w, const Shape& y,
                    const std::function<void(int64_t xi, int64_t wi, int64_t yi)>& visit) {
  int64_t outputs_per_group = w[0] / call.Int("group");
  ForEachIndex(y, [&](const Index& out, int64_t yi) {
    int64_t group = out[1] / outputs_per_group;
    ForEachTap(call, x, out, [&](const Index& tap, const Index& position) {
      for (int64_t c = 0; c < w[1]; ++c) {
        visit(Flat(x, Join(out[0], group * w[1] + c, position)), Flat(w, Join(out[1], c, tap)), yi);
      }
    });
  });
}

Result Convolutions(const Call& call) {
  if (call.Is("Conv")) {
    ReferenceTensor y(call.OutShape(0).elements());
    ForEachProduct(
        call, call.InShape(0), call.InShape(1), call.OutShape(0),
        [&](int64_t xi, int64_t wi, int64_t yi) { y[yi] += call.In(0)[xi] * call.In(1)[wi]; });
    if (call.Has(2)) {
      ForEachIndex(call.OutShape(0),
                   [&](const Index& out, int64_t yi) { y[yi] += call.In(2)[out[1]]; });
    }
    return Tensors{y};
  }
  if (call.Is("ConvGradInput")) {
    Shape x(call.Ints("x_shape"));
    ReferenceTensor dx(x.elements());
    ForEachProduct(
        call, x, call.InShape(1), call.InShape(0),
        [&](int64_t xi, int64_t wi, int64_t yi) { dx[xi] += call.In(0)[yi] * call.In(1)[wi]; });
    return Tensors{dx};
  }
  if (call.Is("ConvGradWeight")) {
    Shape w(call.Ints("w_shape"));
    ReferenceTensor dw(w.elements());
    ReferenceTensor db(w[0]);
    ForEachProduct(
        call, call.InShape(0), w, call.InShape(1),
        [&](int64_t xi, int64_t wi, int64_t yi) { dw[wi] += call.In(0)[xi] * call.In(1)[yi]; });
    ForEachIndex(call.InShape(1),
                 [&](const Index& out, int64_t yi) { db[out[1]] += call.In(1)[yi]; });
    return Tensors{dw, db};
  }
  return std::nullopt;
}

// What an average divides by.
double Divisor(const Call& call, const Shape& x, const Index& out) {
  if (call.Int("count_include_pad") != 0) {
    return static_cast<double>(Shape(call.Ints("kernel")).elements());
  }
  double count = 0;
  ForEachTap(call, x, out, [&](const Index&, const Index&) { ++count; });
  return count;
}

Result Pools(const Call& call) {
  if (call.Is("MaxPool")) {
    const Shape& x = call.InShape(0);
    ReferenceTensor y(call.OutShape(0).elements(), -std::numeric_limits<double>::infinity());
    ReferenceTensor where(y.size(), -1);
    ForEachIndex(call.OutShape(0), [&](const Index& out, int64_t yi) {
      ForEachTap(call, x, out, [&](const Index&, const Index& position) {
        int64_t xi = Flat(x, Join(out[0], out[1], position));
        if (call.In(0)[xi] <= y[yi]) return;
        y[yi] = call.In(0)[xi];
        where[yi] = static_cast<double>(xi);
      });
    });
    return Tensors{y, where};
  }
  if (call.Is("MaxPoolGrad")) {
    ReferenceTensor dx(call.OutShape(0).elements());
    for (size_t yi = 0; yi < call.In(0).size(); ++yi) {
      dx[static_cast<size_t>(call.In(1)[yi])] += call.In(0)[yi];
    }
    return Tensors{dx};
  }
  if (call.Is("AveragePool")) {
    const Shape& x = call.InShape(0);
    ReferenceTensor y(call.OutShape(0).elements());
    ForEachIndex(call.OutShape(0), [&](const Index& out, int64_t yi) {
      ForEachTap(call, x, out, [&](const Index&, const Index& position) {
        y[yi] += call.In(0)[Flat(x, Join(out[0], out[1], position))];
      });
      y[yi] /= Divisor(call, x, out);
    });
    return Tensors{y};
  }
  if (call.Is("AveragePoolGrad")) {
    Shape x(call.Ints("x_shape"));
    ReferenceTensor dx(x.elements());
    ForEachIndex(call.InShape(0), [&](const Index& out, int64_t yi) {
      double share = call.In(0)[yi] / Divisor(call, x, out);
      ForEachTap(call, x, out, [&](const Index&, const Index& position) {
        dx[Flat(x, Join(out[0], out[1], position))] += share;
      });
    });
    return Tensors{dx};
  }
  return std::nullopt;
}

}  // namespace

Result Spatial(const Call& call) {
  if (Result result = Convolutions(call)) return result;
  return Pools(call);
}

}  // namespace pipedream::reference
