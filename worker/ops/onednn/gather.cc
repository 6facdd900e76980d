// Gather copies the rows that the indices name; its gradient adds rows up in the order of the
// indices, whatever the number of threads.
#include <cstring>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/vector_math.h"

namespace pipedream::onednn {
namespace {

constexpr int64_t kGradientColumns = 64;  // of the gradient, summed by one thread

// x seen as [outer, size, inner] around the axis.
struct Table {
  int64_t outer = 1, size = 1, inner = 1;
  int64_t count = 1;        // indices
  bool of_samples = false;  // the indices are a model input, one row per sample

  int64_t Row(int64_t index) const { return index < 0 ? index + size : index; }
};

Table TableOf(const PrepareRequest& request, const Shape& x) {
  const int axis = static_cast<int>(request.node.attributes.Int("axis"));
  Table table;
  for (int i = 0; i < axis; ++i) table.outer *= x[i];
  table.size = x[axis];
  for (int i = axis + 1; i < x.rank(); ++i) table.inner *= x[i];
  table.count = request.input_shape(1).elements();
  table.of_samples = request.graph.value(request.node.inputs[1]).kind == ValueKind::kInput;
  return table;
}

absl::Status CheckIndices(const KernelArguments& args, const Table& table, const int64_t* indices) {
  for (int64_t i = 0; i < table.count; ++i) {
    if (indices[i] >= -table.size && indices[i] < table.size) continue;
    const std::string whose =
        table.of_samples ? fmt::format(" of sample {}", SampleOf(args, i, table.count)) : "";
    return InvalidArgument(
        "index {}{} is out of range: it picks from {} rows, so indices must be 0 to {}; check that "
        "the token ids fit the model's embedding",
        indices[i], whose, table.size, table.size - 1);
  }
  return absl::OkStatus();
}

PD_CLONES void AddRow(const float* x, float* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i];
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareGather(const PrepareRequest& request) {
  const Table table = TableOf(request, request.input_shape(0));
  const size_t element = SizeOf(request.graph.value(request.node.inputs[0]).dtype);
  const int64_t bytes = table.inner * static_cast<int64_t>(element);
  auto run = [=, threads = request.threads](const KernelArguments& args) -> absl::Status {
    const auto* x = static_cast<const char*>(args.inputs[0]);
    const auto* indices = static_cast<const int64_t*>(args.inputs[1]);
    auto* y = static_cast<char*>(args.outputs[0]);
    PD_RETURN_IF_ERROR(CheckIndices(args, table, indices));
    const int64_t grain = kElementGrain / std::max<int64_t>(1, table.inner);
    ParallelFor(threads, table.outer * table.count, grain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / table.count * table.size + table.Row(indices[i % table.count]);
        std::memcpy(y + i * bytes, x + row * bytes, static_cast<size_t>(bytes));
      }
    });
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, run));
}

absl::StatusOr<PreparedKernel> PrepareGatherGrad(const PrepareRequest& request) {
  const Table table = TableOf(request, request.output_shape(0));
  const int64_t chunks = (table.inner + kGradientColumns - 1) / kGradientColumns;
  auto run = [=, threads = request.threads](const KernelArguments& args) -> absl::Status {
    const float* dy = FloatIn(args, 0);
    const auto* indices = static_cast<const int64_t*>(args.inputs[1]);
    float* dx = FloatOut(args, 0);
    PD_RETURN_IF_ERROR(CheckIndices(args, table, indices));
    const int64_t rows = table.outer * table.size;
    ParallelFor(threads, rows, kElementGrain / std::max<int64_t>(1, table.inner),
                [=](int64_t begin, int64_t end) {
                  std::fill(dx + begin * table.inner, dx + end * table.inner, 0.0f);
                });
    const int64_t unit = table.count * std::min(table.inner, kGradientColumns);
    ParallelFor(threads, table.outer * chunks, kElementGrain / std::max<int64_t>(1, unit),
                [=](int64_t begin, int64_t end) {
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t outer = u / chunks, column = u % chunks * kGradientColumns;
                    const int64_t n = std::min(kGradientColumns, table.inner - column);
                    const float* from = dy + outer * table.count * table.inner + column;
                    float* to = dx + outer * table.size * table.inner + column;
                    for (int64_t i = 0; i < table.count; ++i) {
                      AddRow(from + i * table.inner, to + table.Row(indices[i]) * table.inner, n);
                    }
                  }
                });
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, run));
}

}  // namespace pipedream::onednn
