#include <algorithm>
#include <cmath>

#include "tests/support/reference_families.h"

namespace pipedream::reference {
namespace {

// Elements of x seen as [outer, length, inner] around `axis`.
struct Lines {
  int64_t outer = 1, length = 1, inner = 1;

  Lines(const Shape& shape, int64_t axis) {
    for (int i = 0; i < shape.rank(); ++i) {
      (i < axis ? outer : i == axis ? length : inner) *= shape[i];
    }
  }
  void ForEach(const std::function<void(const std::vector<int64_t>& offsets)>& visit) const {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        std::vector<int64_t> offsets;
        for (int64_t k = 0; k < length; ++k) offsets.push_back((o * length + k) * inner + i);
        visit(offsets);
      }
    }
  }
};

ReferenceTensor Softmax(const ReferenceTensor& x, const Lines& lines) {
  ReferenceTensor y(x.size());
  lines.ForEach([&](const std::vector<int64_t>& line) {
    double largest = x[line[0]];
    for (int64_t i : line) largest = std::max(largest, x[i]);
    double sum = 0;
    for (int64_t i : line) sum += std::exp(x[i] - largest);
    for (int64_t i : line) y[i] = std::exp(x[i] - largest) / sum;
  });
  return y;
}

Result SoftmaxGrad(const Call& call) {
  const ReferenceTensor &dy = call.In(0), &y = call.In(1);
  ReferenceTensor dx(y.size());
  Lines(call.InShape(1), call.Int("axis")).ForEach([&](const std::vector<int64_t>& line) {
    double dot = 0;
    for (int64_t i : line) dot += dy[i] * y[i];
    for (int64_t i : line) dx[i] = y[i] * (dy[i] - dot);
  });
  return Tensors{dx};
}

Result CrossEntropy(const Call& call) {
  const ReferenceTensor& logits = call.In(0);
  Lines lines(call.InShape(0), call.InShape(0).rank() - 1);
  ReferenceTensor probabilities = Softmax(logits, lines);
  double loss = 0;
  double correct = 0;
  size_t position = 0;
  lines.ForEach([&](const std::vector<int64_t>& line) {
    auto label = static_cast<size_t>(call.In(1)[position++]);
    loss -= std::log(probabilities[line[label]]);
    size_t best = 0;
    for (size_t k = 1; k < line.size(); ++k) {
      if (logits[line[k]] > logits[line[best]]) best = k;
    }
    correct += best == label ? 1 : 0;
  });
  return Tensors{{loss / static_cast<double>(position)}, probabilities, {correct}};
}

Result CrossEntropyGrad(const Call& call) {
  ReferenceTensor d = call.In(0);
  Lines lines(call.InShape(0), call.InShape(0).rank() - 1);
  double share = call.In(2)[0] / static_cast<double>(lines.outer);
  size_t position = 0;
  lines.ForEach([&](const std::vector<int64_t>& line) {
    d[line[static_cast<size_t>(call.In(1)[position++])]] -= 1;
    for (int64_t i : line) d[i] *= share;
  });
  return Tensors{d};
}

}  // namespace

Result SoftmaxAndLosses(const Call& call) {
  if (call.Is("Softmax")) {
    return Tensors{Softmax(call.In(0), Lines(call.InShape(0), call.Int("axis")))};
  }
  if (call.Is("SoftmaxGrad")) return SoftmaxGrad(call);
  if (call.Is("CrossEntropy")) return CrossEntropy(call);
  if (call.Is("CrossEntropyGrad")) return CrossEntropyGrad(call);
  if (call.Is("Mse") || call.Is("MseGrad")) {
    const ReferenceTensor &a = call.In(0), &b = call.In(1);
    double n = static_cast<double>(a.size());
    double loss = 0;
    ReferenceTensor gradient(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      loss += (a[i] - b[i]) * (a[i] - b[i]) / n;
      if (call.Is("MseGrad")) gradient[i] = 2 * (a[i] - b[i]) / n * call.In(2)[0];
    }
    if (call.Is("Mse")) return Tensors{{loss}};
    return Tensors{gradient};
  }
  return std::nullopt;
}

}  // namespace pipedream::reference
