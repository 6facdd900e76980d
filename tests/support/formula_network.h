// A multilayer perceptron in double precision, forward and backward written out by plain loops:
// the network that formula_oracle.h trains. Rows are samples, row-major.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pipedream {

enum class FormulaActivation { kNone, kTanh, kRelu, kSigmoid };

struct FormulaWeights {
  std::vector<double> weight;  // [outputs, inputs], row-major
  std::vector<double> bias;    // [outputs]
};

// y = activation(x * weight^T + bias).
struct FormulaLayer {
  int64_t inputs = 0;
  int64_t outputs = 0;
  FormulaActivation activation = FormulaActivation::kTanh;
  int stage = 0;
  FormulaWeights initial;
};

enum class FormulaLoss {
  kCrossEntropy,  // softmax of a row against its label, mean over the rows
  kMse,           // squared distance from the targets, mean over all elements
};

struct FormulaData {
  std::vector<double> x;        // [rows, inputs of the first layer]
  std::vector<int64_t> labels;  // [rows]; cross-entropy
  std::vector<double> targets;  // [rows, outputs of the last layer]; MSE
};

// Outputs of the layer for `rows` samples.
std::vector<double> FormulaForward(const FormulaLayer& layer, const FormulaWeights& w,
                                   const std::vector<double>& x, int64_t rows);

// Adds share * (gradient by the weights) to `sum` and returns the gradient by x. `x` and `y` are
// what went into and came out of the forward, whose weights may have been other ones than `w`.
std::vector<double> FormulaBackward(const FormulaLayer& layer, const FormulaWeights& w,
                                    const std::vector<double>& x, const std::vector<double>& y,
                                    const std::vector<double>& dy, double share,
                                    FormulaWeights* sum);

struct FormulaLossValue {
  double loss = 0;               // mean over the rows
  std::vector<double> gradient;  // by the outputs
};
// Of the outputs `y`, `width` per row, for these rows of `data`.
FormulaLossValue FormulaLossOf(FormulaLoss kind, const std::vector<double>& y, int64_t width,
                               const FormulaData& data, std::span<const int64_t> rows);

// Mean loss of `rows` with `weights[layer]` in place of the initial ones.
double FormulaLossOfRows(const std::vector<FormulaLayer>& layers,
                         const std::vector<FormulaWeights>& weights, FormulaLoss kind,
                         const FormulaData& data, std::span<const int64_t> rows);

// The rows of a [*, width] array.
std::vector<double> FormulaRows(const std::vector<double>& from, int64_t width,
                                std::span<const int64_t> rows);

}  // namespace pipedream
