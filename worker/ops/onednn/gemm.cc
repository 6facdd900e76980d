// Gemm and MatMul on row-major matrices. Measured on AVX-512 with 1 to 128 rows: oneDNN's sgemm is
// the fastest but for transposed b from some 12 rows on, where the matmul primitive is (up to 2x).
#include <oneapi/dnnl/dnnl.h>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/primitive_kernel.h"
#include "worker/ops/onednn/strided.h"

namespace pipedream::onednn {
namespace {

using dnnl::memory;

constexpr int64_t kMatmulRows = 12;

struct Product {
  int64_t m = 0, k = 0, n = 0;
  bool trans_a = false, trans_b = false;
  float alpha = 1;
};

Product ProductOf(const Node& node, const Shape& a, const Shape& b) {
  Product p;
  p.trans_a = node.attributes.Int("trans_a") != 0;
  p.trans_b = node.attributes.Int("trans_b") != 0;
  p.m = a[a.rank() - (p.trans_a ? 1 : 2)];
  p.k = a[a.rank() - (p.trans_a ? 2 : 1)];
  p.n = b[b.rank() - (p.trans_b ? 2 : 1)];
  return p;
}

absl::Status Multiply(const Product& p, const float* a, const float* b, float beta, float* y) {
  const dnnl_status_t status =
      dnnl_sgemm(p.trans_a ? 'T' : 'N', p.trans_b ? 'T' : 'N', p.m, p.n, p.k, p.alpha, a,
                 p.trans_a ? p.m : p.k, b, p.trans_b ? p.k : p.n, beta, y, p.n);
  if (status == dnnl_success) return absl::OkStatus();
  return Internal("dnnl_sgemm of {}x{}x{} failed with status {}", p.m, p.k, p.n,
                  static_cast<int>(status));
}

// [batch, rows, columns], read transposed if `transposed`.
memory::desc MatrixDesc(int64_t batch, int64_t rows, int64_t columns, bool transposed) {
  return memory::desc({batch, rows, columns}, memory::data_type::f32,
                      transposed ? memory::format_tag::acb : memory::format_tag::abc);
}

// `bias`: input 2 holds n numbers that are added to every row.
PreparedKernel PrepareMatmulPrimitive(const PrepareRequest& request, const Product& p,
                                      int64_t batch, bool bias) {
  const memory::desc a = MatrixDesc(batch, p.m, p.k, p.trans_a);
  const memory::desc b = MatrixDesc(batch, p.k, p.n, p.trans_b);
  const memory::desc y = MatrixDesc(batch, p.m, p.n, false);
  const memory::desc c = MatrixDesc(1, 1, p.n, false);
  const dnnl::matmul::primitive_desc pd(
      bias ? dnnl::matmul::desc(a, b, c, y) : dnnl::matmul::desc(a, b, y), UserScratchpad(),
      Engine());
  auto kernel = std::make_unique<PrimitiveKernel>(request, dnnl::matmul(pd));
  kernel->Input(DNNL_ARG_SRC, 0, a).Input(DNNL_ARG_WEIGHTS, 1, b).Output(DNNL_ARG_DST, 0, y);
  if (bias) kernel->Input(DNNL_ARG_BIAS, 2, c);
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.scratch_bytes = scratch;
  return prepared;
}

void CopyScaledRow(const float* c, int64_t step, float beta, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = beta * c[i * step];
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareGemm(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const Attributes& attributes = request.node.attributes;
  const Shape& y = request.output_shape(0);
  Product p = ProductOf(request.node, request.input_shape(0), request.input_shape(1));
  p.alpha = static_cast<float>(attributes.Float("alpha", 1));
  const float beta = static_cast<float>(attributes.Float("beta", 1));
  const bool has_c = request.has_input(2) && beta != 0;
  const bool row_bias = has_c && beta == 1 && request.input_shape(2).elements() == p.n &&
                        request.input_shape(2)[request.input_shape(2).rank() - 1] == p.n;
  if (p.trans_b && p.m >= kMatmulRows && p.alpha == 1 && (!has_c || row_bias)) {
    return PrepareMatmulPrimitive(request, p, 1, row_bias);
  }
  // y starts as beta * c and the product is added to it.
  const Shape c = has_c ? request.input_shape(2) : Shape();
  const StridedLoop<2> loop(y, {BroadcastSteps(c, y), RowMajorSteps(y)});
  auto run = [=](const KernelArguments& args) {
    float* out = FloatOut(args, 0);
    if (has_c) {
      const float* from = FloatIn(args, 2);
      loop.ForRows(0, loop.rows(), [&](const std::array<int64_t, 2>& at) {
        CopyScaledRow(from + at[0], loop.column_step(0), beta, out + at[1], loop.columns());
      });
    }
    return Multiply(p, FloatIn(args, 0), FloatIn(args, 1), has_c ? 1.0f : 0.0f, out);
  };
  return request.Plain(MakeLoop(request, run));
}

absl::StatusOr<PreparedKernel> PrepareMatMul(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const Shape &a = request.input_shape(0), &b = request.input_shape(1);
  const Shape& y = request.output_shape(0);
  Product p = ProductOf(request.node, a, b);
  int64_t batch = y.elements() / (p.m * p.n);
  const int64_t a_matrices = a.elements() / (p.m * p.k);
  const int64_t b_matrices = b.elements() / (p.k * p.n);
  if (b_matrices == 1 && a_matrices == batch && !p.trans_a) {  // one tall matrix
    p.m *= batch;
    batch = 1;
  }
  const bool broadcasts = batch > 1 && (a_matrices != batch || b_matrices != batch);
  if (!broadcasts && p.trans_b && p.m >= kMatmulRows) {
    return PrepareMatmulPrimitive(request, p, batch, false);
  }
  // Matrices one by one; leading axes broadcast.
  auto leading = [&](const Shape& s) {
    return Shape(std::vector<int64_t>(s.dims().begin(), s.dims().end() - 2));
  };
  const Shape batches = batch == 1 ? Shape() : leading(y);
  auto steps = [&](const Shape& s) {
    return batch == 1 ? Steps() : BroadcastSteps(leading(s), batches);
  };
  const StridedLoop<3> loop(batches, {steps(a), steps(b), steps(y)});
  auto run = [=](const KernelArguments& args) {
    absl::Status status;
    loop.ForRows(0, loop.rows(), [&](const std::array<int64_t, 3>& at) {
      for (int64_t c = 0; c < loop.columns() && status.ok(); ++c) {
        auto matrix = [&](int operand) { return at[operand] + c * loop.column_step(operand); };
        status = Multiply(p, FloatIn(args, 0) + matrix(0) * p.m * p.k,
                          FloatIn(args, 1) + matrix(1) * p.k * p.n, 0,
                          FloatOut(args, 0) + matrix(2) * p.m * p.n);
      }
    });
    return status;
  };
  return request.Plain(MakeLoop(request, run));
}

}  // namespace pipedream::onednn
