// Gemm and MatMul; their gradients are made of themselves.
#include <algorithm>

#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

struct Product {
  int64_t m, k, n;
};

// The last two axes, transposed as the attributes say.
absl::StatusOr<Product> ReadProduct(const Node& node, const Shape& a, const Shape& b) {
  if (a.rank() < 2 || b.rank() < 2) {
    return InvalidArgument("a is {} and b is {}, expected at least two axes each", a.ToString(),
                           b.ToString());
  }
  bool trans_a = node.attributes.Int("trans_a") != 0;
  bool trans_b = node.attributes.Int("trans_b") != 0;
  int64_t m = a[a.rank() - (trans_a ? 1 : 2)];
  int64_t k = a[a.rank() - (trans_a ? 2 : 1)];
  int64_t kb = b[b.rank() - (trans_b ? 1 : 2)];
  int64_t n = b[b.rank() - (trans_b ? 2 : 1)];
  if (k != kb) {
    return InvalidArgument("a{} {} and b{} {} do not multiply: inner sizes are {} and {}",
                           trans_a ? " (transposed)" : "", a.ToString(),
                           trans_b ? " (transposed)" : "", b.ToString(), k, kb);
  }
  return Product{m, k, n};
}

Inferred InferGemm(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"a"}, {"b"}, {.name = "c", .optional = true}}));
  PD_RETURN_IF_ERROR(CheckHas(node, {"alpha", "beta"}));
  if (inputs[0].shape.rank() != 2 || inputs[1].shape.rank() != 2) {
    return InvalidArgument("a is {} and b is {}, expected two axes each",
                           inputs[0].shape.ToString(), inputs[1].shape.ToString());
  }
  PD_ASSIGN_OR_RETURN(Product product, ReadProduct(node, inputs[0].shape, inputs[1].shape));
  Shape y({product.m, product.n});
  if (Present(node, 2) && !BroadcastsTo(inputs[2].shape, y)) {
    return InvalidArgument("input 2 (c) is {}, which does not broadcast to {}",
                           inputs[2].shape.ToString(), y.ToString());
  }
  return Types{Float32(std::move(y))};
}

Shape Leading(const Shape& shape) {
  return Shape(std::vector<int64_t>(shape.dims().begin(), shape.dims().end() - 2));
}

Inferred InferMatMul(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"a"}, {"b"}}));
  PD_ASSIGN_OR_RETURN(Product product, ReadProduct(node, inputs[0].shape, inputs[1].shape));
  PD_ASSIGN_OR_RETURN(Shape batch,
                      BroadcastShapes(Leading(inputs[0].shape), Leading(inputs[1].shape)));
  std::vector<int64_t> dims = batch.dims();
  dims.push_back(product.m);
  dims.push_back(product.n);
  return Types{Float32(Shape(std::move(dims)))};
}

Attributes Transposed(bool a, bool b) {
  return Attributes().Set("trans_a", int64_t{a}).Set("trans_b", int64_t{b});
}

// dA of y = A'B', without broadcasting: `op` is Gemm or MatMul, `extra` its other attributes.
absl::StatusOr<ValueId> ProductGradientA(GradientContext& context, std::string_view op, ValueId dy,
                                         Attributes (*attributes)(bool, bool, double),
                                         double alpha) {
  const Node& node = context.node();
  bool trans_a = node.attributes.Int("trans_a") != 0;
  bool trans_b = node.attributes.Int("trans_b") != 0;
  if (trans_a) {
    return AddOne(context, op, {node.inputs[1], dy}, attributes(trans_b, true, alpha));
  }
  return AddOne(context, op, {dy, node.inputs[1]}, attributes(false, !trans_b, alpha));
}

absl::StatusOr<ValueId> ProductGradientB(GradientContext& context, std::string_view op, ValueId a,
                                         ValueId dy, Attributes (*attributes)(bool, bool, double),
                                         double alpha) {
  const Node& node = context.node();
  bool trans_a = node.attributes.Int("trans_a") != 0;
  bool trans_b = node.attributes.Int("trans_b") != 0;
  if (trans_b) return AddOne(context, op, {dy, a}, attributes(true, trans_a, alpha));
  return AddOne(context, op, {a, dy}, attributes(!trans_a, false, alpha));
}

Attributes GemmAttributes(bool trans_a, bool trans_b, double alpha) {
  return Transposed(trans_a, trans_b).Set("alpha", alpha).Set("beta", 0.0);
}

Attributes MatMulAttributes(bool trans_a, bool trans_b, double) {
  return Transposed(trans_a, trans_b);
}

absl::Status GemmGradient(GradientContext& context) {
  const Node& node = context.node();
  ValueId dy = context.output_gradient(0);
  double alpha = node.attributes.Float("alpha");
  if (context.wants(2)) {
    PD_ASSIGN_OR_RETURN(ValueId dc, SumTo(context, dy, ShapeOf(context, node.inputs[2])));
    PD_ASSIGN_OR_RETURN(dc, Scale(context, dc, node.attributes.Float("beta")));
    context.SetInputGradient(2, dc);
  }
  if (context.wants(1)) {
    PD_ASSIGN_OR_RETURN(
        ValueId db, ProductGradientB(context, "Gemm", node.inputs[0], dy, GemmAttributes, alpha));
    context.SetInputGradient(1, db);
  }
  if (context.wants(0)) {
    PD_ASSIGN_OR_RETURN(ValueId da, ProductGradientA(context, "Gemm", dy, GemmAttributes, alpha));
    context.SetInputGradient(0, da);
  }
  return absl::OkStatus();
}

// Rows of all batches as one matrix: a weight's gradient then is one product, where the general
// rule would make one per batch and add them up.
absl::StatusOr<ValueId> Flattened(GradientContext& context, ValueId value) {
  Shape shape = ShapeOf(context, value);
  int64_t columns = shape[shape.rank() - 1];
  int64_t rows = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i];
  return Reshape(context, value, Shape({rows, columns}));
}

absl::Status MatMulGradient(GradientContext& context) {
  const Node& node = context.node();
  ValueId dy = context.output_gradient(0);
  Shape a = ShapeOf(context, node.inputs[0]);
  Shape b = ShapeOf(context, node.inputs[1]);
  if (context.wants(1)) {
    ValueId left = node.inputs[0];
    ValueId right = dy;
    if (b.rank() == 2 && a.rank() > 2 && node.attributes.Int("trans_a") == 0) {
      PD_ASSIGN_OR_RETURN(left, Flattened(context, left));
      PD_ASSIGN_OR_RETURN(right, Flattened(context, right));
    }
    PD_ASSIGN_OR_RETURN(ValueId db,
                        ProductGradientB(context, "MatMul", left, right, MatMulAttributes, 1));
    PD_ASSIGN_OR_RETURN(db, SumTo(context, db, b));
    context.SetInputGradient(1, db);
  }
  if (context.wants(0)) {
    PD_ASSIGN_OR_RETURN(ValueId da, ProductGradientA(context, "MatMul", dy, MatMulAttributes, 1));
    PD_ASSIGN_OR_RETURN(da, SumTo(context, da, a));
    context.SetInputGradient(0, da);
  }
  return absl::OkStatus();
}

Cost ProductCost(const Node& node, const Types& inputs, const Types& outputs) {
  const Shape& a = inputs[0].shape;
  int64_t k = a[a.rank() - (node.attributes.Int("trans_a") != 0 ? 2 : 1)];
  double elements = static_cast<double>(outputs[0].shape.elements());
  return {2 * elements * static_cast<double>(k) + (Present(node, 2) ? elements : 0),
          TransferBytes(inputs, outputs)};
}

constexpr OpDef kMatMulOps[] = {
    {.name = "Gemm", .infer = InferGemm, .gradient = GemmGradient, .cost = ProductCost},
    {.name = "MatMul", .infer = InferMatMul, .gradient = MatMulGradient, .cost = ProductCost},
};

}  // namespace

std::span<const OpDef> MatMulOps() { return kMatMulOps; }

}  // namespace pipedream::op_defs
