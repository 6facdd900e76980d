// Pad, Slice, Reshape, Expand, Concat, Split: strided copies of row-major tensors. Transpose:
// oneDNN's reorder.
#include <cstring>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/primitive_kernel.h"
#include "worker/ops/onednn/strided.h"

namespace pipedream::onednn {
namespace {

template <typename T>
void CopyRow(const T* x, int64_t x_step, T* y, int64_t y_step, int64_t n) {
  if (x_step == 1 && y_step == 1) {
    std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
  } else if (y_step == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i * x_step];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * y_step] = x[i * x_step];
  }
}

// Starts are in elements.
struct StridedCopy {
  StridedLoop<2> loop;  // operands: x, y
  int64_t x_start = 0;
  int64_t y_start = 0;
  int threads = 1;

  template <typename T>
  void Run(const void* x, void* y) const {
    const T* from = static_cast<const T*>(x) + x_start;
    T* to = static_cast<T*>(y) + y_start;
    const int64_t grain = std::max<int64_t>(1, kElementGrain / loop.columns());
    ParallelFor(threads, loop.rows(), grain, [&](int64_t begin, int64_t end) {
      loop.ForRows(begin, end, [&](const std::array<int64_t, 2>& at) {
        CopyRow(from + at[0], loop.column_step(0), to + at[1], loop.column_step(1), loop.columns());
      });
    });
  }
  void Run(size_t element_bytes, const void* x, void* y) const {
    if (element_bytes == 1) return Run<uint8_t>(x, y);
    if (element_bytes == 4) return Run<uint32_t>(x, y);
    return Run<uint64_t>(x, y);
  }
};

size_t ElementBytes(const PrepareRequest& request) {
  return SizeOf(request.graph.value(request.node.inputs[0]).dtype);
}

PreparedKernel PrepareCopy(const PrepareRequest& request, const StridedCopy& copy) {
  auto run = [copy, bytes = ElementBytes(request)](const KernelArguments& args) {
    copy.Run(bytes, args.inputs[0], args.outputs[0]);
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, run));
}

}  // namespace

absl::StatusOr<PreparedKernel> PreparePad(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const Shape &x = request.input_shape(0), &y = request.output_shape(0);
  const std::vector<int64_t> pads = request.node.attributes.Ints("pads");
  const Steps y_steps = RowMajorSteps(y);
  StridedCopy copy{{x, {RowMajorSteps(x), y_steps}}, 0, 0, request.threads};
  for (int i = 0; i < x.rank(); ++i) copy.y_start += pads[i] * y_steps[i];
  const float value = static_cast<float>(request.node.attributes.Float("value"));
  auto run = [copy, value, n = y.elements()](const KernelArguments& args) {
    float* y = FloatOut(args, 0);
    std::fill(y, y + n, value);
    copy.Run<uint32_t>(args.inputs[0], y);
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, run));
}

absl::StatusOr<PreparedKernel> PrepareSlice(const PrepareRequest& request) {
  const Shape &x = request.input_shape(0), &y = request.output_shape(0);
  const std::vector<int64_t> starts = request.node.attributes.Ints("starts");
  const std::vector<int64_t> steps = request.node.attributes.Ints("steps");
  Steps x_steps = RowMajorSteps(x);
  int64_t start = 0;
  for (int i = 0; i < x.rank(); ++i) {
    start += starts[i] * x_steps[i];
    x_steps[i] *= steps[i];
  }
  return PrepareCopy(request, {{y, {x_steps, RowMajorSteps(y)}}, start, 0, request.threads});
}

absl::StatusOr<PreparedKernel> PrepareExpand(const PrepareRequest& request) {
  const Shape &x = request.input_shape(0), &y = request.output_shape(0);
  return PrepareCopy(request,
                     {{y, {BroadcastSteps(x, y), RowMajorSteps(y)}}, 0, 0, request.threads});
}

absl::StatusOr<PreparedKernel> PrepareConcat(const PrepareRequest& request) {
  const int axis = static_cast<int>(request.node.attributes.Int("axis"));
  const Steps y_steps = RowMajorSteps(request.output_shape(0));
  std::vector<StridedCopy> copies;
  int64_t start = 0;
  for (size_t i = 0; i < request.node.inputs.size(); ++i) {
    const Shape& x = request.input_shape(static_cast<int>(i));
    copies.push_back({{x, {RowMajorSteps(x), y_steps}}, 0, start, request.threads});
    start += x[axis] * y_steps[axis];
  }
  auto run = [copies = std::move(copies),
              bytes = ElementBytes(request)](const KernelArguments& args) {
    for (size_t i = 0; i < copies.size(); ++i) {
      copies[i].Run(bytes, args.inputs[i], args.outputs[0]);
    }
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, std::move(run)));
}

absl::StatusOr<PreparedKernel> PrepareSplit(const PrepareRequest& request) {
  const int axis = static_cast<int>(request.node.attributes.Int("axis"));
  const std::vector<int64_t> sizes = request.node.attributes.Ints("split");
  const Steps x_steps = RowMajorSteps(request.input_shape(0));
  std::vector<StridedCopy> copies;
  int64_t start = 0;
  for (size_t o = 0; o < request.node.outputs.size(); ++o) {
    const Shape& y = request.output_shape(static_cast<int>(o));
    copies.push_back({{y, {x_steps, RowMajorSteps(y)}}, start, 0, request.threads});
    start += sizes[o] * x_steps[axis];
  }
  auto run = [copies = std::move(copies),
              bytes = ElementBytes(request)](const KernelArguments& args) {
    for (size_t o = 0; o < copies.size(); ++o) {
      copies[o].Run(bytes, args.inputs[0], args.outputs[o]);
    }
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, std::move(run)));
}

absl::StatusOr<PreparedKernel> PrepareReshape(const PrepareRequest& request) {
  const size_t bytes = request.plain_input(0).bytes;
  auto run = [bytes](const KernelArguments& args) {
    if (args.inputs[0] != args.outputs[0] && bytes != 0) {
      std::memcpy(args.outputs[0], args.inputs[0], bytes);
    }
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.in_place[0] = 0;
  prepared.alias = true;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareTranspose(const PrepareRequest& request) {
  const Shape &x = request.input_shape(0), &y = request.output_shape(0);
  const std::vector<int64_t> perm = request.node.attributes.Ints("perm");
  const Steps x_own = RowMajorSteps(x);
  Steps x_steps(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) x_steps[i] = x_own[perm[i]];
  if (RequireFloat(request).ok() && y.rank() > 0 && y.rank() <= 6 && y.elements() > 0) {
    const dnnl::memory::dims dims = DimsOf(y);
    const dnnl::memory::desc source(dims, dnnl::memory::data_type::f32, x_steps);
    const dnnl::memory::desc destination = PlainDesc(dims);
    dnnl::reorder::primitive_desc pd(Engine(), source, Engine(), destination, UserScratchpad());
    auto kernel = std::make_unique<PrimitiveKernel>(request, dnnl::reorder(pd));
    kernel->Input(DNNL_ARG_FROM, 0, source).Output(DNNL_ARG_TO, 0, destination);
    const size_t scratch = BindScratchpad(pd, *kernel);
    PreparedKernel prepared = request.Plain(std::move(kernel));
    prepared.scratch_bytes = scratch;
    return prepared;
  }
  return PrepareCopy(request, {{y, {x_steps, RowMajorSteps(y)}}, 0, 0, request.threads});
}

}  // namespace pipedream::onednn
