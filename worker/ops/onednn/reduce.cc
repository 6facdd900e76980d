// ReduceSum, ReduceMean, SumTo over row-major tensors. Every output element is summed in double, in
// an order that depends on the shape only, never on threads.
#include <cstring>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/strided.h"
#include "worker/ops/onednn/vector_math.h"

namespace pipedream::onednn {
namespace {

constexpr int64_t kSummedColumns = 256;  // output elements summed side by side

PD_CLONES double RowSum(const float* x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

PD_CLONES void AddRow(const float* x, double* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i];
}

// Axes of x, neighbours of one kind merged, split into kept and reduced ones.
struct Plan {
  std::vector<int64_t> kept, kept_steps;
  std::vector<int64_t> reduced, reduced_steps;
  int64_t columns = 1;  // innermost axis
  bool columns_reduced = false;
};

Plan MakePlan(const Shape& x, const std::vector<bool>& is_reduced) {
  struct Axis {
    int64_t size, step;
    bool reduced;
  };
  const Steps steps = RowMajorSteps(x);
  std::vector<Axis> axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i] == 1) continue;
    if (!axes.empty() && axes.back().reduced == is_reduced[i]) {
      axes.back().size *= x[i];
      axes.back().step = steps[i];
    } else {
      axes.push_back({x[i], steps[i], is_reduced[i]});
    }
  }
  Plan plan;
  if (!axes.empty()) {
    plan.columns = axes.back().size;
    plan.columns_reduced = axes.back().reduced;
    axes.pop_back();
  }
  for (const Axis& axis : axes) {
    (axis.reduced ? plan.reduced : plan.kept).push_back(axis.size);
    (axis.reduced ? plan.reduced_steps : plan.kept_steps).push_back(axis.step);
  }
  return plan;
}

// f(offset) for every combination of `loop`'s axes, in order.
template <typename F>
void ForOffsets(const StridedLoop<1>& loop, const F& f) {
  loop.ForRows(0, loop.rows(), [&](const std::array<int64_t, 1>& at) {
    for (int64_t c = 0; c < loop.columns(); ++c) f(at[0] + c * loop.column_step(0));
  });
}

PreparedKernel PrepareSum(const PrepareRequest& request, const std::vector<bool>& is_reduced,
                          double factor) {
  const Plan plan = MakePlan(request.input_shape(0), is_reduced);
  const StridedLoop<1> outer(Shape(plan.kept), {plan.kept_steps});
  const StridedLoop<1> inner(Shape(plan.reduced), {plan.reduced_steps});
  // Unit of work: one output element, or kSummedColumns neighbouring ones.
  const int64_t chunks =
      plan.columns_reduced ? 1 : (plan.columns + kSummedColumns - 1) / kSummedColumns;
  const int64_t outputs = outer.rows() * outer.columns();
  const int64_t grain =
      std::max<int64_t>(1, kElementGrain * outputs * chunks /
                               std::max<int64_t>(1, request.input_shape(0).elements()));
  auto run = [=, threads = request.threads](const KernelArguments& args) {
    const float* x = FloatIn(args, 0);
    float* y = FloatOut(args, 0);
    auto unit = [&](int64_t index) {
      const int64_t out = index / chunks;
      int64_t base = 0;
      const int64_t row = out / outer.columns();
      outer.ForRows(row, row + 1, [&](const std::array<int64_t, 1>& at) {
        base = at[0] + out % outer.columns() * outer.column_step(0);
      });
      if (plan.columns_reduced) {
        double sum = 0;
        ForOffsets(inner, [&](int64_t at) { sum += RowSum(x + base + at, plan.columns); });
        y[out] = static_cast<float>(sum * factor);
        return;
      }
      double sums[kSummedColumns] = {};
      const int64_t begin = index % chunks * kSummedColumns;
      const int64_t n = std::min(kSummedColumns, plan.columns - begin);
      ForOffsets(inner, [&](int64_t at) { AddRow(x + base + at + begin, sums, n); });
      float* to = y + out * plan.columns + begin;
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(sums[i] * factor);
    };
    ParallelFor(threads, outputs * chunks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) unit(i);
    });
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, run));
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareReduce(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const Shape& x = request.input_shape(0);
  std::vector<bool> is_reduced(x.rank(), false);
  int64_t count = 1;
  for (int64_t axis : request.node.attributes.Ints("axes")) {
    is_reduced[axis] = true;
    count *= x[static_cast<int>(axis)];
  }
  const bool mean = request.node.op == "ReduceMean";
  return PrepareSum(request, is_reduced, mean ? 1.0 / static_cast<double>(count) : 1.0);
}

absl::StatusOr<PreparedKernel> PrepareSumTo(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const Shape &x = request.input_shape(0), &y = request.output_shape(0);
  std::vector<bool> is_reduced(x.rank(), true);
  const int shift = x.rank() - y.rank();
  for (int i = 0; i < y.rank(); ++i) is_reduced[i + shift] = y[i] == 1;
  return PrepareSum(request, is_reduced, 1);
}

}  // namespace pipedream::onednn
