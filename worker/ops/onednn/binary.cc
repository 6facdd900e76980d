// Add, Sub, Mul, Div: one flat loop where shapes and layouts agree, else row by row with
// broadcasting over row-major tensors.
#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/layout.h"
#include "worker/ops/onednn/strided.h"
#include "worker/ops/onednn/vector_math.h"

namespace pipedream::onednn {
namespace {

enum class BinaryOp { kAdd, kSub, kMul, kDiv };

BinaryOp OpOf(std::string_view name) {
  if (name == "Add") return BinaryOp::kAdd;
  if (name == "Sub") return BinaryOp::kSub;
  return name == "Mul" ? BinaryOp::kMul : BinaryOp::kDiv;
}

template <typename F>
PD_INLINE void Row(const float* a, int64_t a_step, const float* b, int64_t b_step, float* y,
                   int64_t n, F f) {
  if (a_step == 1 && b_step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (a_step == 1 && b_step == 0) {
    const float bv = b[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], bv);
  } else if (a_step == 0 && b_step == 1) {
    const float av = a[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(av, b[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i * a_step], b[i * b_step]);
  }
}

PD_CLONES void BinaryRow(BinaryOp op, const float* a, int64_t a_step, const float* b,
                         int64_t b_step, float* y, int64_t n) {
  switch (op) {
    case BinaryOp::kAdd:
      return Row(a, a_step, b, b_step, y, n, [](float u, float v) { return u + v; });
    case BinaryOp::kSub:
      return Row(a, a_step, b, b_step, y, n, [](float u, float v) { return u - v; });
    case BinaryOp::kMul:
      return Row(a, a_step, b, b_step, y, n, [](float u, float v) { return u * v; });
    case BinaryOp::kDiv:
      return Row(a, a_step, b, b_step, y, n, [](float u, float v) { return u / v; });
  }
}

PreparedKernel PrepareFlat(const PrepareRequest& request, BinaryOp op) {
  // A blocked operand pulls the other into its layout, so that blocked regions stay whole.
  TensorSpec spec = request.offered(0).layout != nullptr ? request.offered(0) : request.offered(1);
  if (op == BinaryOp::kDiv && IsPadded(spec))
    spec = request.plain_input(0);  // padding would be 0/0
  const int64_t n = static_cast<int64_t>(spec.bytes / sizeof(float));
  auto run = [op, n, threads = request.threads](const KernelArguments& args) {
    const float *a = FloatIn(args, 0), *b = FloatIn(args, 1);
    float* y = FloatOut(args, 0);
    ParallelFor(threads, n, kElementGrain, [=](int64_t begin, int64_t end) {
      BinaryRow(op, a + begin, 1, b + begin, 1, y + begin, end - begin);
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.inputs[0] = prepared.inputs[1] = spec;
  prepared.outputs[0] = spec;
  prepared.in_place[0] = 0;
  return prepared;
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareBinary(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const BinaryOp op = OpOf(request.node.op);
  const Shape &a = request.input_shape(0), &b = request.input_shape(1);
  const Shape& y = request.output_shape(0);
  if (a == b) return PrepareFlat(request, op);
  const StridedLoop<3> loop(y, {BroadcastSteps(a, y), BroadcastSteps(b, y), RowMajorSteps(y)});
  auto run = [op, loop, threads = request.threads](const KernelArguments& args) {
    const float *a = FloatIn(args, 0), *b = FloatIn(args, 1);
    float* y = FloatOut(args, 0);
    const int64_t grain = std::max<int64_t>(1, kElementGrain / loop.columns());
    ParallelFor(threads, loop.rows(), grain, [&](int64_t begin, int64_t end) {
      loop.ForRows(begin, end, [&](const std::array<int64_t, 3>& at) {
        BinaryRow(op, a + at[0], loop.column_step(0), b + at[1], loop.column_step(1), y + at[2],
                  loop.columns());
      });
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  if (a == y)
    prepared.in_place[0] = 0;
  else if (b == y)
    prepared.in_place[0] = 1;
  return prepared;
}

}  // namespace pipedream::onednn
