// Softmax and its gradient along any axis of a row-major tensor. Along the last axis row by row;
// along another one, kLanes neighbouring positions side by side.
#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/softmax_rows.h"
#include "worker/ops/onednn/vector_math.h"

namespace pipedream::onednn {

PD_CLONES float RowMax(const float* x, int64_t n) {
  float max = x[0];
#pragma omp simd reduction(max : max)
  for (int64_t i = 0; i < n; ++i) max = max < x[i] ? x[i] : max;
  return max;
}

PD_CLONES double SoftmaxRow(const float* x, float max, float* y, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float e = VectorExp(x[i] - max);
    y[i] = e;
    sum += e;
  }
  const float scale = static_cast<float>(1 / sum);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
  return sum;
}

namespace {

constexpr int64_t kLanes = 64;

struct Axes {
  int64_t outer = 1, length = 1, inner = 1;
};
Axes AxesOf(const PrepareRequest& request) {
  const Shape& x = request.input_shape(0);
  const int axis = static_cast<int>(request.node.attributes.Int("axis"));
  Axes axes;
  for (int i = 0; i < axis; ++i) axes.outer *= x[i];
  axes.length = x[axis];
  for (int i = axis + 1; i < x.rank(); ++i) axes.inner *= x[i];
  return axes;
}

PD_CLONES void SoftmaxRowGrad(const float* dy, const float* y, float* dx, int64_t n) {
  double dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t i = 0; i < n; ++i) dot += static_cast<double>(dy[i]) * y[i];
  const float mean = static_cast<float>(dot);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - mean);
}

// `step` between elements of one position, `n` <= kLanes positions.
PD_CLONES void SoftmaxColumns(const float* x, float* y, int64_t length, int64_t step, int64_t n) {
  float max[kLanes];
  double sum[kLanes] = {};
  for (int64_t j = 0; j < n; ++j) max[j] = x[j];
  for (int64_t i = 1; i < length; ++i) {
    const float* row = x + i * step;
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) max[j] = max[j] < row[j] ? row[j] : max[j];
  }
  for (int64_t i = 0; i < length; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const float e = VectorExp(x[i * step + j] - max[j]);
      y[i * step + j] = e;
      sum[j] += e;
    }
  }
  float scale[kLanes];
  for (int64_t j = 0; j < n; ++j) scale[j] = static_cast<float>(1 / sum[j]);
  for (int64_t i = 0; i < length; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[i * step + j] *= scale[j];
  }
}

PD_CLONES void SoftmaxColumnsGrad(const float* dy, const float* y, float* dx, int64_t length,
                                  int64_t step, int64_t n) {
  double dot[kLanes] = {};
  for (int64_t i = 0; i < length; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      dot[j] += static_cast<double>(dy[i * step + j]) * y[i * step + j];
    }
  }
  for (int64_t i = 0; i < length; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      dx[i * step + j] = y[i * step + j] * (dy[i * step + j] - static_cast<float>(dot[j]));
    }
  }
}

// rows(offset) for the last axis, columns(offset, n) for others.
template <typename Rows, typename Columns>
void ForPositions(const Axes& axes, int threads, const Rows& rows, const Columns& columns) {
  const int64_t chunks = axes.inner == 1 ? 1 : (axes.inner + kLanes - 1) / kLanes;
  const int64_t unit = axes.length * std::min(axes.inner, kLanes);
  ParallelFor(threads, axes.outer * chunks, kElementGrain / unit, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t base = i / chunks * axes.length * axes.inner;
      if (axes.inner == 1) {
        rows(base);
      } else {
        const int64_t first = i % chunks * kLanes;
        columns(base + first, std::min(kLanes, axes.inner - first));
      }
    }
  });
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareSoftmax(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  auto run = [axes = AxesOf(request), threads = request.threads](const KernelArguments& args) {
    const float* x = FloatIn(args, 0);
    float* y = FloatOut(args, 0);
    ForPositions(
        axes, threads,
        [&](int64_t at) { SoftmaxRow(x + at, RowMax(x + at, axes.length), y + at, axes.length); },
        [&](int64_t at, int64_t n) { SoftmaxColumns(x + at, y + at, axes.length, axes.inner, n); });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.in_place[0] = 0;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareSoftmaxGrad(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  auto run = [axes = AxesOf(request), threads = request.threads](const KernelArguments& args) {
    const float *dy = FloatIn(args, 0), *y = FloatIn(args, 1);
    float* dx = FloatOut(args, 0);
    ForPositions(
        axes, threads, [&](int64_t at) { SoftmaxRowGrad(dy + at, y + at, dx + at, axes.length); },
        [&](int64_t at, int64_t n) {
          SoftmaxColumnsGrad(dy + at, y + at, dx + at, axes.length, axes.inner, n);
        });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.in_place[0] = 0;
  return prepared;
}

}  // namespace pipedream::onednn
