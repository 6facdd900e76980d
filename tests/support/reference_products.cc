#include "tests/support/reference_families.h"

namespace pipedream::reference {
namespace {

struct Matrix {
  const double* data;
  int64_t rows, columns;  // as stored
  bool transposed;
  double At(int64_t i, int64_t j) const {
    return transposed ? data[j * columns + i] : data[i * columns + j];
  }
};

Matrix LastAxes(const ReferenceTensor& data, const Shape& shape, const Index& batch,
                bool transposed) {
  int64_t rows = shape[shape.rank() - 2];
  int64_t columns = shape[shape.rank() - 1];
  Shape leading(std::vector<int64_t>(shape.dims().begin(), shape.dims().end() - 2));
  return {data.data() + BroadcastFlat(leading, batch) * rows * columns, rows, columns, transposed};
}

}  // namespace

Result Products(const Call& call) {
  bool gemm = call.Is("Gemm");
  if (!gemm && !call.Is("MatMul")) return std::nullopt;
  const Shape& out = call.OutShape(0);
  int rank = out.rank();
  bool trans_a = call.Int("trans_a") != 0;
  bool trans_b = call.Int("trans_b") != 0;
  ReferenceTensor y(out.elements());
  ForEachIndex(out, [&](const Index& index, int64_t flat) {
    Index batch(index.begin(), index.end() - 2);
    Matrix a = LastAxes(call.In(0), call.InShape(0), batch, trans_a);
    Matrix b = LastAxes(call.In(1), call.InShape(1), batch, trans_b);
    double sum = 0;
    for (int64_t k = 0; k < (trans_a ? a.rows : a.columns); ++k) {
      sum += a.At(index[rank - 2], k) * b.At(k, index[rank - 1]);
    }
    if (gemm) {
      sum *= call.Float("alpha");
      if (call.Has(2))
        sum += call.Float("beta") * call.In(2)[BroadcastFlat(call.InShape(2), index)];
    }
    y[flat] = sum;
  });
  return Tensors{y};
}

}  // namespace pipedream::reference
