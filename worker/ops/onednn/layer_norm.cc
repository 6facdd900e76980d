// LayerNormalization and its gradient over rows of a row-major tensor. Sums are made in double; the
// gradients of scale and bias are added up over chunks of rows that depend on the shape only.
#include <cmath>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/vector_math.h"

namespace pipedream::onednn {
namespace {

struct Rows {
  int64_t rows = 1, columns = 1;
  int64_t chunk = 1;  // rows that one thread takes at a time

  int64_t chunks() const { return (rows + chunk - 1) / chunk; }
};

Rows RowsOf(const PrepareRequest& request, const Shape& x) {
  const int axis = static_cast<int>(request.node.attributes.Int("axis"));
  Rows result;
  for (int i = 0; i < axis; ++i) result.rows *= x[i];
  for (int i = axis; i < x.rank(); ++i) result.columns *= x[i];
  result.chunk = std::max<int64_t>(1, kElementGrain / result.columns);
  return result;
}

struct Moments {
  double mean, variance;
};

PD_CLONES Moments MomentsOf(const float* x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, squares / static_cast<double>(n)};
}

// `bias` may be null.
PD_CLONES void NormalizeRow(const float* x, float mean, float inverse, const float* scale,
                            const float* bias, float* y, int64_t n) {
  if (bias == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
  }
}

// Adds a row's share to the gradients of scale and bias.
PD_CLONES void AddRow(const float* dy, const float* x, float mean, float inverse, double* dscale,
                      double* dbias, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    dscale[i] += static_cast<double>(dy[i] * ((x[i] - mean) * inverse));
    dbias[i] += static_cast<double>(dy[i]);
  }
}

// With g = scale dy and xh = (x - mean) / deviation:
// dx = (g - mean of g - xh * mean of (g xh)) / deviation.
PD_CLONES void RowGradient(const float* dy, const float* x, const float* scale, float mean,
                           float inverse, float* dx, int64_t n) {
  double sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
  for (int64_t i = 0; i < n; ++i) {
    const float g = scale[i] * dy[i];
    sum += static_cast<double>(g);
    dot += static_cast<double>(g) * static_cast<double>((x[i] - mean) * inverse);
  }
  const auto mean_g = static_cast<float>(sum / static_cast<double>(n));
  const auto mean_dot = static_cast<float>(dot / static_cast<double>(n));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    dx[i] = inverse * (scale[i] * dy[i] - mean_g - (x[i] - mean) * inverse * mean_dot);
  }
}

PD_CLONES void AddDoubles(const double* from, double* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

void Round(const double* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareLayerNorm(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const Rows r = RowsOf(request, request.input_shape(0));
  const double epsilon = request.node.attributes.Float("epsilon");
  const bool has_bias = request.has_input(2);
  const bool keep_mean = request.has_output(1), keep_inverse = request.has_output(2);
  auto run = [=, threads = request.threads](const KernelArguments& args) {
    const float *x = FloatIn(args, 0), *scale = FloatIn(args, 1);
    const float* bias = has_bias ? FloatIn(args, 2) : nullptr;
    float* y = FloatOut(args, 0);
    float* means = keep_mean ? FloatOut(args, 1) : nullptr;
    float* inverses = keep_inverse ? FloatOut(args, 2) : nullptr;
    ParallelFor(threads, r.rows, r.chunk, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * r.columns;
        const Moments moments = MomentsOf(x + at, r.columns);
        const auto mean = static_cast<float>(moments.mean);
        const auto inverse = static_cast<float>(1 / std::sqrt(moments.variance + epsilon));
        NormalizeRow(x + at, mean, inverse, scale, bias, y + at, r.columns);
        if (means != nullptr) means[row] = mean;
        if (inverses != nullptr) inverses[row] = inverse;
      }
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.in_place[0] = 0;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareLayerNormGrad(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const Rows r = RowsOf(request, request.input_shape(1));
  const bool weights = request.has_output(1) || request.has_output(2);
  const bool has_dscale = request.has_output(1), has_dbias = request.has_output(2);
  // Scratch: per chunk the sums for scale, then those for bias.
  const int64_t chunk_sums = weights ? 2 * r.columns : 0;
  auto run = [=, threads = request.threads](const KernelArguments& args) {
    const float *dy = FloatIn(args, 0), *x = FloatIn(args, 1), *scale = FloatIn(args, 2);
    const float *means = FloatIn(args, 3), *inverses = FloatIn(args, 4);
    float* dx = FloatOut(args, 0);
    auto* sums = static_cast<double*>(args.scratch);
    ParallelFor(threads, r.rows, r.chunk, [=](int64_t begin, int64_t end) {
      double* dscale = sums + begin / r.chunk * chunk_sums;
      if (weights) std::fill(dscale, dscale + chunk_sums, 0.0);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * r.columns;
        const float mean = means[row], inverse = inverses[row];
        if (weights) {
          AddRow(dy + at, x + at, mean, inverse, dscale, dscale + r.columns, r.columns);
        }
        RowGradient(dy + at, x + at, scale, mean, inverse, dx + at, r.columns);
      }
    });
    for (int64_t c = 1; weights && c < r.chunks(); ++c) {
      AddDoubles(sums + c * chunk_sums, sums, chunk_sums);
    }
    if (has_dscale) Round(sums, FloatOut(args, 1), r.columns);
    if (has_dbias) Round(sums + r.columns, FloatOut(args, 2), r.columns);
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.in_place[0] = 0;
  prepared.scratch_bytes =
      static_cast<size_t>(std::max<int64_t>(1, r.chunks()) * chunk_sums) * sizeof(double);
  return prepared;
}

}  // namespace pipedream::onednn
