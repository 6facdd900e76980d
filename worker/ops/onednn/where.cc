// Where and its gradient: row by row over row-major tensors with broadcasting. What is not chosen
// is not computed with, so infinities of a mask stay where they are.
#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/strided.h"
#include "worker/ops/onednn/vector_math.h"

namespace pipedream::onednn {
namespace {

absl::Status RequireFloats(const PrepareRequest& request, int first) {
  for (int i = first; i < static_cast<int>(request.node.inputs.size()); ++i) {
    const DataType dtype = request.graph.value(request.node.inputs[i]).dtype;
    if (dtype != DataType::kFloat32) {
      return Unimplemented("input {} is {}; this kernel takes float32 only", i, ToString(dtype));
    }
  }
  return absl::OkStatus();
}

struct WhereOperands {
  const uint8_t* condition;
  int64_t condition_step;
  const float* a;
  int64_t a_step;
  const float* b;
  int64_t b_step;
};

PD_CLONES void WhereRow(const WhereOperands& row, float* y, int64_t n) {
  const uint8_t* c = row.condition;
  const float *a = row.a, *b = row.b;
  if (row.condition_step == 1 && row.a_step == 0 && row.b_step == 1) {
    const float av = a[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = c[i] != 0 ? av : b[i];
  } else if (row.condition_step == 1 && row.a_step == 1 && row.b_step == 0) {
    const float bv = b[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = c[i] != 0 ? a[i] : bv;
  } else {
    for (int64_t i = 0; i < n; ++i) {
      y[i] = c[i * row.condition_step] != 0 ? a[i * row.a_step] : b[i * row.b_step];
    }
  }
}

PD_CLONES void KeepRow(const uint8_t* c, int64_t step, bool keep, const float* dy, float* dx,
                       int64_t n) {
  if (step == 0) {
    const bool kept = (c[0] != 0) == keep;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = kept ? dy[i] : 0.0f;
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = (c[i * step] != 0) == keep ? dy[i] : 0.0f;
  }
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareWhere(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloats(request, 1));
  const Shape& y = request.output_shape(0);
  const StridedLoop<4> loop(
      y, {BroadcastSteps(request.input_shape(0), y), BroadcastSteps(request.input_shape(1), y),
          BroadcastSteps(request.input_shape(2), y), RowMajorSteps(y)});
  auto run = [loop, threads = request.threads](const KernelArguments& args) {
    const auto* condition = static_cast<const uint8_t*>(args.inputs[0]);
    const float *a = FloatIn(args, 1), *b = FloatIn(args, 2);
    float* y = FloatOut(args, 0);
    const int64_t grain = std::max<int64_t>(1, kElementGrain / loop.columns());
    ParallelFor(threads, loop.rows(), grain, [&](int64_t begin, int64_t end) {
      loop.ForRows(begin, end, [&](const std::array<int64_t, 4>& at) {
        WhereRow({condition + at[0], loop.column_step(0), a + at[1], loop.column_step(1), b + at[2],
                  loop.column_step(2)},
                 y + at[3], loop.columns());
      });
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  if (request.input_shape(2) == y)
    prepared.in_place[0] = 2;
  else if (request.input_shape(1) == y)
    prepared.in_place[0] = 1;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareWhereGrad(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloats(request, 1));
  const Shape& dx = request.output_shape(0);
  const Steps own = RowMajorSteps(dx);
  const StridedLoop<3> loop(dx, {BroadcastSteps(request.input_shape(0), dx), own, own});
  const bool keep = request.node.attributes.Int("keep") != 0;
  auto run = [loop, keep, threads = request.threads](const KernelArguments& args) {
    const auto* condition = static_cast<const uint8_t*>(args.inputs[0]);
    const float* dy = FloatIn(args, 1);
    float* dx = FloatOut(args, 0);
    const int64_t grain = std::max<int64_t>(1, kElementGrain / loop.columns());
    ParallelFor(threads, loop.rows(), grain, [&](int64_t begin, int64_t end) {
      loop.ForRows(begin, end, [&](const std::array<int64_t, 3>& at) {
        KeepRow(condition + at[0], loop.column_step(0), keep, dy + at[1], dx + at[2],
                loop.columns());
      });
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.in_place[0] = 1;
  return prepared;
}

}  // namespace pipedream::onednn
