#include "common/base/status.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

absl::Status TranslateGemm(Translation& t) {
  Attributes attributes;
  attributes.Set("trans_a", int64_t{t.attributes.Int("transA", 0) != 0})
      .Set("trans_b", int64_t{t.attributes.Int("transB", 0) != 0})
      .Set("alpha", t.attributes.Float("alpha", 1))
      .Set("beta", t.attributes.Float("beta", 1));
  PD_RETURN_IF_ERROR(t.attributes.status());
  std::vector<ValueId> inputs{t.Input(0), t.Input(1)};
  if (t.HasInput(2)) inputs.push_back(t.Input(2));
  return t.EmitOutput("Gemm", std::move(inputs), std::move(attributes)).status();
}

Attributes PlainMatMul() {
  return Attributes().Set("trans_a", int64_t{0}).Set("trans_b", int64_t{0});
}

// A vector operand becomes a matrix for the product, and the result loses that axis again.
absl::StatusOr<ValueId> AsMatrix(Translation& t, int i, bool row) {
  ValueId x = t.Input(i);
  const Shape& shape = t.InputShape(i);
  if (shape.rank() == 0) return InvalidArgument("input {} is a scalar", i);
  if (shape.rank() > 1) return x;
  int64_t n = shape[0];
  std::vector<int64_t> dims = row ? std::vector<int64_t>{1, n} : std::vector<int64_t>{n, 1};
  PD_ASSIGN_OR_RETURN(auto outputs, t.Emit("Reshape", {x}, Attributes().Set("shape", dims)));
  return outputs[0];
}

absl::Status TranslateMatMul(Translation& t) {
  bool vector_a = t.InputShape(0).rank() == 1, vector_b = t.InputShape(1).rank() == 1;
  PD_ASSIGN_OR_RETURN(ValueId a, AsMatrix(t, 0, true));
  PD_ASSIGN_OR_RETURN(ValueId b, AsMatrix(t, 1, false));
  if (!vector_a && !vector_b) return t.EmitOutput("MatMul", {a, b}, PlainMatMul()).status();
  PD_ASSIGN_OR_RETURN(auto product, t.Emit("MatMul", {a, b}, PlainMatMul()));
  std::vector<int64_t> dims = t.ShapeOf(product[0]).dims();
  if (vector_b) dims.pop_back();
  if (vector_a) dims.erase(dims.end() - (vector_b ? 1 : 2));
  return t.EmitOutput("Reshape", {product[0]}, Attributes().Set("shape", dims)).status();
}

}  // namespace

std::vector<Translator> MatMulTranslators() {
  return {{"Gemm", TranslateGemm, 2, 3}, {"MatMul", TranslateMatMul, 2, 2}};
}

}  // namespace pipedream::onnx_import
