#include <algorithm>
#include <cmath>

#include "tests/support/reference_families.h"

namespace pipedream::reference {
namespace {

// Sums f over all elements of each channel (axis 1).
ReferenceTensor PerChannel(const Shape& shape, const std::function<double(int64_t, int64_t)>& f) {
  ReferenceTensor sums(shape[1]);
  ForEachIndex(shape, [&](const Index& index, int64_t i) { sums[index[1]] += f(i, index[1]); });
  return sums;
}

ReferenceTensor Normalize(const Shape& shape, const ReferenceTensor& x,
                          const ReferenceTensor& scale, const ReferenceTensor& bias,
                          const ReferenceTensor& mean, const ReferenceTensor& variance,
                          double epsilon) {
  ReferenceTensor y(x.size());
  ForEachIndex(shape, [&](const Index& index, int64_t i) {
    int64_t c = index[1];
    y[i] = scale[c] * (x[i] - mean[c]) / std::sqrt(variance[c] + epsilon) + bias[c];
  });
  return y;
}

Result BatchNormalization(const Call& call) {
  const Shape& shape = call.InShape(0);
  const ReferenceTensor& x = call.In(0);
  double n = static_cast<double>(shape.elements()) / static_cast<double>(shape[1]);
  ReferenceTensor mean = PerChannel(shape, [&](int64_t i, int64_t) { return x[i] / n; });
  ReferenceTensor variance = PerChannel(
      shape, [&](int64_t i, int64_t c) { return (x[i] - mean[c]) * (x[i] - mean[c]) / n; });
  return Tensors{Normalize(shape, x, call.In(1), call.In(2), mean, variance, call.Float("epsilon")),
                 mean, variance};
}

Result BatchNormalizationGrad(const Call& call) {
  const Shape& shape = call.InShape(1);
  const ReferenceTensor &dy = call.In(0), &x = call.In(1), &scale = call.In(2);
  const ReferenceTensor &mean = call.In(3), &variance = call.In(4);
  double epsilon = call.Float("epsilon");
  double n = static_cast<double>(shape.elements()) / static_cast<double>(shape[1]);
  auto centred = [&](int64_t i, int64_t c) {
    return (x[i] - mean[c]) / std::sqrt(variance[c] + epsilon);
  };
  ReferenceTensor dbias = PerChannel(shape, [&](int64_t i, int64_t) { return dy[i]; });
  ReferenceTensor dscale =
      PerChannel(shape, [&](int64_t i, int64_t c) { return dy[i] * centred(i, c); });
  ReferenceTensor dx(x.size());
  ForEachIndex(shape, [&](const Index& index, int64_t i) {
    int64_t c = index[1];
    dx[i] = scale[c] / std::sqrt(variance[c] + epsilon) *
            (dy[i] - dbias[c] / n - centred(i, c) * dscale[c] / n);
  });
  return Tensors{dx, dscale, dbias};
}

Result UpdateRunningStatistics(const Call& call) {
  double momentum = call.Float("momentum");
  double n = static_cast<double>(call.Int("count"));
  double unbiased = n > 1 ? n / (n - 1) : 1;
  ReferenceTensor mean = call.In(2);
  ReferenceTensor variance = call.In(3);
  for (size_t c = 0; c < mean.size(); ++c) {
    mean[c] = momentum * mean[c] + (1 - momentum) * call.In(0)[c];
    variance[c] = momentum * variance[c] + (1 - momentum) * call.In(1)[c] * unbiased;
  }
  return Tensors{mean, variance};
}

// What x holds along the axes from `axis` on, at each position before them.
struct Positions {
  size_t count = 1, length = 1;

  Positions(const Call& call, const Shape& x) {
    for (int i = 0; i < x.rank(); ++i) (i < call.Int("axis") ? count : length) *= x[i];
  }
  // The mean over i of f(offset of element i of position p, i).
  double Mean(size_t p, const std::function<double(size_t, size_t)>& f) const {
    double sum = 0;
    for (size_t i = 0; i < length; ++i) sum += f(p * length + i, i);
    return sum / static_cast<double>(length);
  }
};

Result LayerNormalization(const Call& call) {
  const ReferenceTensor &x = call.In(0), &scale = call.In(1);
  Positions positions(call, call.InShape(0));
  ReferenceTensor y(x.size()), means, inverses;
  for (size_t p = 0; p < positions.count; ++p) {
    double mean = positions.Mean(p, [&](size_t at, size_t) { return x[at]; });
    double variance =
        positions.Mean(p, [&](size_t at, size_t) { return (x[at] - mean) * (x[at] - mean); });
    means.push_back(mean);
    inverses.push_back(1 / std::sqrt(variance + call.Float("epsilon")));
    for (size_t i = 0; i < positions.length; ++i) {
      size_t at = p * positions.length + i;
      y[at] = (x[at] - mean) * inverses[p] * scale[i] + (call.Has(2) ? call.In(2)[i] : 0);
    }
  }
  return Tensors{y, means, inverses};
}

Result LayerNormalizationGrad(const Call& call) {
  const ReferenceTensor &dy = call.In(0), &x = call.In(1), &scale = call.In(2);
  Positions positions(call, call.InShape(1));
  ReferenceTensor dx(x.size()), dscale(scale.size()), dbias(scale.size());
  for (size_t p = 0; p < positions.count; ++p) {
    double mean = call.In(3)[p], inverse = call.In(4)[p];
    auto centred = [&](size_t at) { return (x[at] - mean) * inverse; };
    double share = positions.Mean(p, [&](size_t at, size_t i) { return dy[at] * scale[i]; });
    double slope =
        positions.Mean(p, [&](size_t at, size_t i) { return dy[at] * scale[i] * centred(at); });
    for (size_t i = 0; i < positions.length; ++i) {
      size_t at = p * positions.length + i;
      dx[at] = inverse * (dy[at] * scale[i] - share - centred(at) * slope);
      dscale[i] += dy[at] * centred(at);
      dbias[i] += dy[at];
    }
  }
  return Tensors{dx, dscale, dbias};
}

// bias + alpha / size * the sum of squares over the channels around that of `index`.
double LrnBase(const Call& call, const Shape& shape, const ReferenceTensor& x, Index index) {
  int64_t size = call.Int("size");
  int64_t first = std::max<int64_t>(0, index[1] - (size - 1) / 2);
  int64_t last = std::min(shape[1] - 1, index[1] + size / 2);
  double squares = 0;
  for (int64_t c = first; c <= last; ++c) {
    index[1] = c;
    double v = x[Flat(shape, index)];
    squares += v * v;
  }
  return call.Float("bias") + call.Float("alpha") / static_cast<double>(size) * squares;
}

Result Lrn(const Call& call) {
  ReferenceTensor y = call.In(0);
  ForEachIndex(call.InShape(0), [&](const Index& index, int64_t i) {
    y[i] /= std::pow(LrnBase(call, call.InShape(0), call.In(0), index), call.Float("beta"));
  });
  return Tensors{y, ReferenceTensor()};
}

Result LrnGrad(const Call& call) {
  const Shape& shape = call.InShape(1);
  const ReferenceTensor &dy = call.In(0), &x = call.In(1);
  double beta = call.Float("beta");
  int64_t size = call.Int("size");
  ReferenceTensor dx(x.size());
  // Output `index` reads its own x and, in its base, those of the channels around.
  ForEachIndex(shape, [&](const Index& index, int64_t i) {
    double base = LrnBase(call, shape, x, index);
    dx[i] += dy[i] * std::pow(base, -beta);
    double through_base = dy[i] * x[i] * -beta * std::pow(base, -beta - 1);
    Index other = index;
    for (int64_t c = std::max<int64_t>(0, index[1] - (size - 1) / 2);
         c <= std::min(shape[1] - 1, index[1] + size / 2); ++c) {
      other[1] = c;
      int64_t j = Flat(shape, other);
      dx[j] += through_base * call.Float("alpha") / static_cast<double>(size) * 2 * x[j];
    }
  });
  return Tensors{dx};
}

}  // namespace

Result Normalizations(const Call& call) {
  if (call.Is("BatchNormalization")) return BatchNormalization(call);
  if (call.Is("BatchNormalizationGrad")) return BatchNormalizationGrad(call);
  if (call.Is("UpdateRunningStatistics")) return UpdateRunningStatistics(call);
  if (call.Is("BatchNormalizationInference")) {
    return Tensors{Normalize(call.InShape(0), call.In(0), call.In(1), call.In(2), call.In(3),
                             call.In(4), call.Float("epsilon"))};
  }
  if (call.Is("LayerNormalization")) return LayerNormalization(call);
  if (call.Is("LayerNormalizationGrad")) return LayerNormalizationGrad(call);
  if (call.Is("LRN")) return Lrn(call);
  if (call.Is("LRNGrad")) return LrnGrad(call);
  return std::nullopt;
}

}  // namespace pipedream::reference
