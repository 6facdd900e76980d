// CrossEntropy, Mse and their gradients. Means are summed in double in the order of the positions.
#include <cmath>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/softmax_rows.h"
#include "worker/ops/onednn/vector_math.h"

namespace pipedream::onednn {
namespace {

absl::Status CheckLabels(const KernelArguments& args, const int64_t* labels, int64_t positions,
                         int64_t classes) {
  for (int64_t p = 0; p < positions; ++p) {
    if (labels[p] >= 0 && labels[p] < classes) continue;
    return InvalidArgument(
        "label {} of sample {} is out of range: the model has {} classes, so labels must be 0 to "
        "{}; check that the labels fit the model's last layer",
        labels[p], SampleOf(args, p, positions), classes, classes - 1);
  }
  return absl::OkStatus();
}

// Loss of one position in double; its probabilities go to `y`. `x` may be `y`.
double PositionLoss(const float* x, int64_t label, float* y, int64_t classes, bool* correct) {
  const float max = RowMax(x, classes);
  const double at_label = x[label];
  int64_t largest = 0;  // the first of equals
  while (largest + 1 < classes && !(x[largest] == max)) ++largest;
  *correct = largest == label && x[largest] == max;
  return std::log(SoftmaxRow(x, max, y, classes)) + max - at_label;
}

PD_CLONES double SquaredDifference(const float* a, const float* b, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    sum += d * d;
  }
  return sum;
}

PD_CLONES void ScaledDifference(const float* a, const float* b, float scale, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = scale * (a[i] - b[i]);
}

PD_CLONES void ScaleRow(const float* x, float scale, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = scale * x[i];
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareCrossEntropy(const PrepareRequest& request) {
  const Shape& logits = request.input_shape(0);
  const int64_t classes = logits[logits.rank() - 1];
  const int64_t positions = logits.elements() / classes;
  const bool keep = request.has_output(1), count = request.has_output(2);
  struct Position {
    double loss;
    int64_t correct;
  };
  // Scratch: a Position each, then rows of probabilities that nobody wants, one per position.
  const size_t rows_at = static_cast<size_t>(positions) * sizeof(Position);
  auto run = [=, threads = request.threads](const KernelArguments& args) -> absl::Status {
    const float* x = FloatIn(args, 0);
    const auto* labels = static_cast<const int64_t*>(args.inputs[1]);
    PD_RETURN_IF_ERROR(CheckLabels(args, labels, positions, classes));
    auto* results = static_cast<Position*>(args.scratch);
    float* probabilities = keep ? FloatOut(args, 1) : nullptr;
    if (probabilities == nullptr) {
      probabilities = reinterpret_cast<float*>(static_cast<char*>(args.scratch) + rows_at);
    }
    ParallelFor(threads, positions, kElementGrain / classes, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        bool correct = false;
        const double loss = PositionLoss(x + p * classes, labels[p], probabilities + p * classes,
                                         classes, &correct);
        results[p] = {loss, correct ? 1 : 0};
      }
    });
    double loss = 0;
    int64_t correct = 0;
    for (int64_t p = 0; p < positions; ++p) {
      loss += results[p].loss;
      correct += results[p].correct;
    }
    *FloatOut(args, 0) = static_cast<float>(loss / static_cast<double>(positions));
    if (count && args.outputs[2] != nullptr) *static_cast<int64_t*>(args.outputs[2]) = correct;
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.scratch_bytes = rows_at + static_cast<size_t>(logits.elements()) * sizeof(float);
  if (keep) prepared.in_place[1] = 0;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareCrossEntropyGrad(const PrepareRequest& request) {
  const Shape& shape = request.input_shape(0);
  const int64_t classes = shape[shape.rank() - 1];
  const int64_t positions = shape.elements() / classes;
  auto run = [=, threads = request.threads](const KernelArguments& args) -> absl::Status {
    const float* p = FloatIn(args, 0);
    const auto* labels = static_cast<const int64_t*>(args.inputs[1]);
    PD_RETURN_IF_ERROR(CheckLabels(args, labels, positions, classes));
    const float scale = *FloatIn(args, 2) / static_cast<float>(positions);
    float* dx = FloatOut(args, 0);
    ParallelFor(threads, positions, kElementGrain / classes, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* row = p + i * classes;
        const float at_label = (row[labels[i]] - 1) * scale;
        ScaleRow(row, scale, dx + i * classes, classes);
        dx[i * classes + labels[i]] = at_label;
      }
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.in_place[0] = 0;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareMse(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const int64_t n = request.input_shape(0).elements();
  const int64_t chunks = (n + kElementGrain - 1) / kElementGrain;
  auto run = [=, threads = request.threads](const KernelArguments& args) {
    const float *a = FloatIn(args, 0), *b = FloatIn(args, 1);
    auto* sums = static_cast<double*>(args.scratch);
    ParallelFor(threads, n, kElementGrain, [&](int64_t begin, int64_t end) {
      sums[begin / kElementGrain] = SquaredDifference(a + begin, b + begin, end - begin);
    });
    double sum = 0;
    for (int64_t c = 0; c < chunks; ++c) sum += sums[c];
    *FloatOut(args, 0) = static_cast<float>(sum / static_cast<double>(n));
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.scratch_bytes = static_cast<size_t>(chunks) * sizeof(double);
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareMseGrad(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const int64_t n = request.input_shape(0).elements();
  auto run = [n, threads = request.threads](const KernelArguments& args) {
    const float *a = FloatIn(args, 0), *b = FloatIn(args, 1);
    const float scale = 2 * *FloatIn(args, 2) / static_cast<float>(n);
    float* dx = FloatOut(args, 0);
    ParallelFor(threads, n, kElementGrain, [=](int64_t begin, int64_t end) {
      ScaledDifference(a + begin, b + begin, scale, dx + begin, end - begin);
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.in_place[0] = 0;
  return prepared;
}

}  // namespace pipedream::onednn
