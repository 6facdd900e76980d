#include "tests/support/formula_network.h"

#include <algorithm>
#include <cmath>

namespace pipedream {
namespace {

using Values = std::vector<double>;

double Activate(FormulaActivation activation, double z) {
  switch (activation) {
    case FormulaActivation::kNone:
      return z;
    case FormulaActivation::kTanh:
      return std::tanh(z);
    case FormulaActivation::kRelu:
      return std::max(z, 0.0);
    case FormulaActivation::kSigmoid:
      return 1 / (1 + std::exp(-z));
  }
  return z;
}

// Derivative by the value `a` of the activation.
double Slope(FormulaActivation activation, double a) {
  switch (activation) {
    case FormulaActivation::kNone:
      return 1;
    case FormulaActivation::kTanh:
      return 1 - a * a;
    case FormulaActivation::kRelu:
      return a > 0 ? 1 : 0;
    case FormulaActivation::kSigmoid:
      return a * (1 - a);
  }
  return 1;
}

}  // namespace

Values FormulaForward(const FormulaLayer& layer, const FormulaWeights& w, const Values& x,
                      int64_t rows) {
  Values y(rows * layer.outputs);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < layer.outputs; ++o) {
      double z = w.bias[o];
      for (int64_t i = 0; i < layer.inputs; ++i)
        z += x[n * layer.inputs + i] * w.weight[o * layer.inputs + i];
      y[n * layer.outputs + o] = Activate(layer.activation, z);
    }
  }
  return y;
}

Values FormulaBackward(const FormulaLayer& layer, const FormulaWeights& w, const Values& x,
                       const Values& y, const Values& dy, double share, FormulaWeights* sum) {
  const int64_t rows = static_cast<int64_t>(y.size()) / layer.outputs;
  Values dx(x.size(), 0.0);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < layer.outputs; ++o) {
      const int64_t at = n * layer.outputs + o;
      const double dz = dy[at] * Slope(layer.activation, y[at]);
      sum->bias[o] += share * dz;
      for (int64_t i = 0; i < layer.inputs; ++i) {
        sum->weight[o * layer.inputs + i] += share * dz * x[n * layer.inputs + i];
        dx[n * layer.inputs + i] += dz * w.weight[o * layer.inputs + i];
      }
    }
  }
  return dx;
}

Values FormulaRows(const Values& from, int64_t width, std::span<const int64_t> rows) {
  Values out;
  for (int64_t row : rows)
    out.insert(out.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
  return out;
}

FormulaLossValue FormulaLossOf(FormulaLoss kind, const Values& y, int64_t width,
                               const FormulaData& data, std::span<const int64_t> rows) {
  const auto count = static_cast<double>(rows.size());
  FormulaLossValue out{0, Values(y.size(), 0.0)};
  if (kind == FormulaLoss::kMse) {
    const Values target = FormulaRows(data.targets, width, rows);
    const auto elements = static_cast<double>(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      const double off = y[i] - target[i];
      out.loss += off * off / elements;
      out.gradient[i] = 2 * off / elements;
    }
    return out;
  }
  for (size_t n = 0; n < rows.size(); ++n) {
    const double* logits = &y[n * width];
    const int64_t label = data.labels[rows[n]];
    const double largest = *std::max_element(logits, logits + width);
    double sum = 0;
    for (int64_t o = 0; o < width; ++o) sum += std::exp(logits[o] - largest);
    out.loss += (largest + std::log(sum) - logits[label]) / count;
    for (int64_t o = 0; o < width; ++o) {
      const double probability = std::exp(logits[o] - largest) / sum;
      out.gradient[n * width + o] = (probability - (o == label ? 1 : 0)) / count;
    }
  }
  return out;
}

double FormulaLossOfRows(const std::vector<FormulaLayer>& layers,
                         const std::vector<FormulaWeights>& weights, FormulaLoss kind,
                         const FormulaData& data, std::span<const int64_t> rows) {
  Values values = FormulaRows(data.x, layers[0].inputs, rows);
  for (size_t l = 0; l < layers.size(); ++l)
    values = FormulaForward(layers[l], weights[l], values, std::ssize(rows));
  return FormulaLossOf(kind, values, layers.back().outputs, data, rows).loss;
}

}  // namespace pipedream
