// Cases of matrix products, elementwise operators, data movement, reductions and losses.
#pragma once

#include "tests/worker/ops/kernel_cases.h"

namespace pipedream {

// One node over fresh inputs a, b, c.
inline KernelCase OneNode(const std::string& name, const std::string& op, std::vector<Shape> shapes,
                          Attributes attributes = {}) {
  KernelCase result;
  result.name = op + name;
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const bool divisor = op == "Div" && i == 1;
      inputs.push_back(
          net.In(divisor ? "positive" : std::string(1, static_cast<char>('a' + i)), shapes[i]));
    }
    net.Op(op, inputs, attributes);
    return net.status();
  };
  return result;
}

// Forward over "wide" values and its gradient, which reads the output or the input.
inline KernelCase Activation(const std::string& op, const std::string& name, const Shape& shape,
                             bool from_output, const Attributes& attributes = {}) {
  KernelCase result;
  result.name = op + name;
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    const ValueId x = net.In("wide_x", shape), dy = net.In("dy", shape);
    const ValueId y = net.Op(op, {x}, attributes)[0];
    net.Op(op + "Grad", {dy, from_output ? y : x}, attributes);
    return net.status();
  };
  return result;
}

// Forward over positive values, for roots and powers.
inline KernelCase OfPositive(const std::string& op, const std::string& name, const Shape& shape,
                             const Attributes& attributes = {}) {
  KernelCase result;
  result.name = op + name;
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    net.Op(op, {net.In("positive_x", shape)}, attributes);
    return net.status();
  };
  return result;
}

inline Attributes GemmOf(bool trans_a, bool trans_b, double alpha = 1, double beta = 1) {
  return Attributes()
      .Set("trans_a", int64_t{trans_a})
      .Set("trans_b", int64_t{trans_b})
      .Set("alpha", alpha)
      .Set("beta", beta);
}
inline Attributes Transposes(bool a, bool b) {
  return Attributes().Set("trans_a", int64_t{a}).Set("trans_b", int64_t{b});
}

inline void AddProductCases(std::vector<KernelCase>& cases) {
  int number = 0;
  auto add = [&](const std::string& op, std::vector<Shape> shapes, const Attributes& attributes) {
    cases.push_back(OneNode(std::to_string(++number), op, std::move(shapes), attributes));
  };
  for (int64_t m : {1, 5, 12, 33}) {
    add("Gemm", {{m, 37}, {21, 37}, {21}}, GemmOf(false, true));
    add("Gemm", {{m, 37}, {37, 21}, {1, 21}}, GemmOf(false, false));
    add("Gemm", {{37, m}, {37, 21}}, GemmOf(true, false));
    add("Gemm", {{37, m}, {21, 37}, {m, 1}}, GemmOf(true, true));
  }
  add("Gemm", {{16, 300}, {64, 300}, {64}}, GemmOf(false, true, 0.5, 2));
  add("Gemm", {{16, 30}, {8, 30}, {16, 8}}, GemmOf(false, true, 1, 1));
  add("Gemm", {{16, 30}, {8, 30}, Shape()}, GemmOf(false, true, 1, 0.5));
  add("Gemm", {{16, 30}, {16, 30}, {16, 1}}, GemmOf(false, true));
  add("Gemm", {{3, 30}, {8, 30}, {8}}, GemmOf(false, true, 1, 0));
  add("MatMul", {{4, 7, 9}, {9, 5}}, Transposes(false, false));
  add("MatMul", {{4, 7, 9}, {5, 9}}, Transposes(false, true));
  add("MatMul", {{4, 9, 7}, {9, 5}}, Transposes(true, false));
  add("MatMul", {{2, 3, 16, 8}, {2, 3, 16, 8}}, Transposes(false, true));
  add("MatMul", {{2, 3, 7, 8}, {2, 3, 8, 6}}, Transposes(false, false));
  add("MatMul", {{2, 1, 7, 8}, {3, 8, 6}}, Transposes(false, false));
  add("MatMul", {{3, 20, 8}, {2, 1, 6, 8}}, Transposes(false, true));
  add("MatMul", {{2, 3, 8, 7}, {2, 3, 6, 8}}, Transposes(true, true));
  add("MatMul", {{6, 8}, {8, 3}}, Transposes(false, false));
}

inline void AddElementwiseCases(std::vector<KernelCase>& cases) {
  const Attributes linear = Attributes().Set("alpha", 0.2).Set("beta", 0.5);
  const Attributes range = Attributes().Set("min", 0.0).Set("max", 4.0);
  const Attributes above = Attributes().Set("min", 0.5).Set("max", 3.0);
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, Shape>>{{"Images", {2, 6, 5, 7}},
                                                  {"Blocks", {1, 32, 4, 4}},
                                                  {"Rows", {5, 33}},
                                                  {"Long", {40000}}}) {
    cases.push_back(Activation("Relu", name, shape, true));
    cases.push_back(Activation("Sigmoid", name, shape, true));
    cases.push_back(Activation("Tanh", name, shape, true));
    cases.push_back(Activation("Erf", name, shape, false));
    cases.push_back(Activation("Gelu", name, shape, false));
    cases.push_back(Activation("GeluTanh", name, shape, false));
    cases.push_back(OfPositive("Sqrt", name, shape));
    cases.push_back(OneNode(name + "Square", "Pow", {shape}, Attributes().Set("exponent", 2.0)));
    cases.push_back(OneNode(name + "Cube", "Pow", {shape}, Attributes().Set("exponent", 3.0)));
    cases.push_back(OfPositive("Pow", name + "Inverse", shape, Attributes().Set("exponent", -1.5)));
    cases.push_back(Activation("HardSwish", name, shape, false));
    cases.push_back(Activation("HardSigmoid", name, shape, false, linear));
    cases.push_back(Activation("Clip", name, shape, false, range));
    cases.push_back(OneNode(name, "Scale", {shape}, Attributes().Set("factor", -2.5)));
  }
  cases.push_back(Activation("Clip", "AwayFromZero", {2, 6, 5, 7}, false, above));
  for (const std::string op : {"Add", "Sub", "Mul", "Div"}) {
    cases.push_back(OneNode("Same", op, {{2, 6, 5, 7}, {2, 6, 5, 7}}));
    cases.push_back(OneNode("Row", op, {{4, 9}, {9}}));
    cases.push_back(OneNode("Column", op, {{4, 9}, {4, 1}}));
    cases.push_back(OneNode("Channels", op, {{2, 6, 5, 7}, {6, 1, 1}}));
    cases.push_back(OneNode("Gate", op, {{2, 6, 5, 7}, {2, 6, 1, 1}}));
    cases.push_back(OneNode("Left", op, {{7}, {2, 3, 7}}));
    cases.push_back(OneNode("Both", op, {{3, 1, 5}, {2, 1, 4, 1}}));
    cases.push_back(OneNode("Number", op, {Shape(), {3, 4}}));
  }
}

inline void AddMovementCases(std::vector<KernelCase>& cases) {
  const auto pad = [](Ints pads, double value) {
    return Attributes().Set("pads", std::move(pads)).Set("value", value);
  };
  const auto slice = [](Ints starts, Ints ends, Ints steps) {
    return Attributes()
        .Set("starts", std::move(starts))
        .Set("ends", std::move(ends))
        .Set("steps", std::move(steps));
  };
  const auto list = [](std::string_view name, Ints values) {
    return Attributes().Set(name, std::move(values));
  };
  cases.push_back(OneNode("Plane", "Pad", {{2, 3, 4, 5}}, pad({0, 0, 1, 2, 0, 0, 2, 1}, 1.5)));
  cases.push_back(OneNode("Channels", "Pad", {{2, 3, 4, 5}}, pad({0, 2, 0, 0, 0, 3, 0, 0}, 0)));
  cases.push_back(OneNode("LastOfOne", "Pad", {{3, 4, 1}}, pad({0, 0, 0, 0, 0, 2}, 0)));
  cases.push_back(OneNode("Steps", "Slice", {{5, 7, 9}}, slice({1, 0, 2}, {5, 7, 9}, {2, 3, 1})));
  cases.push_back(OneNode("LastStep", "Slice", {{4, 9}}, slice({0, 1}, {3, 9}, {1, 3})));
  cases.push_back(OneNode("Channels", "Slice", {{2, 20, 4, 4}},
                          slice({0, 3, 0, 0}, {2, 17, 4, 4}, {1, 1, 1, 1})));
  cases.push_back(OneNode("Flatten", "Reshape", {{2, 6, 5, 7}}, list("shape", {2, 210})));
  cases.push_back(OneNode("Matrix", "Transpose", {{33, 20}}, list("perm", {1, 0})));
  cases.push_back(OneNode("Heads", "Transpose", {{2, 5, 3, 4}}, list("perm", {0, 2, 1, 3})));
  cases.push_back(OneNode("Reverse", "Transpose", {{2, 3, 4, 5}}, list("perm", {3, 2, 1, 0})));
  cases.push_back(OneNode("ManyAxes", "Transpose", {{2, 1, 3, 2, 2, 1, 3}},
                          list("perm", {6, 0, 2, 1, 4, 3, 5})));
  cases.push_back(OneNode("Rows", "Expand", {{3, 1}}, list("shape", {2, 3, 4})));
  cases.push_back(OneNode("Number", "Expand", {Shape()}, list("shape", {5, 3})));
  cases.push_back(OneNode("Row", "Expand", {{7}}, list("shape", {5, 7})));
}

inline void AddReductionCases(std::vector<KernelCase>& cases) {
  const auto axes = [](Ints values, int64_t keepdims) {
    return Attributes().Set("axes", std::move(values)).Set("keepdims", keepdims);
  };
  for (const std::string op : {"ReduceSum", "ReduceMean"}) {
    cases.push_back(OneNode("Last", op, {{4, 5, 600}}, axes({2}, 0)));
    cases.push_back(OneNode("First", op, {{40, 700}}, axes({0}, 1)));
    cases.push_back(OneNode("Middle", op, {{3, 4, 5, 6}}, axes({1, 2}, 0)));
    cases.push_back(OneNode("Ends", op, {{3, 4, 5, 6}}, axes({0, 3}, 1)));
    cases.push_back(OneNode("All", op, {{3, 50000}}, axes({0, 1}, 0)));
    cases.push_back(OneNode("None", op, {{3, 5}}, axes({}, 1)));
  }
  const auto shape = [](Ints values) { return Attributes().Set("shape", std::move(values)); };
  cases.push_back(OneNode("Row", "SumTo", {{64, 300}}, shape({300})));
  cases.push_back(OneNode("Column", "SumTo", {{64, 300}}, shape({64, 1})));
  cases.push_back(OneNode("Channels", "SumTo", {{2, 6, 5, 7}}, shape({6, 1, 1})));
  cases.push_back(OneNode("Number", "SumTo", {{2, 6}}, shape({})));
  cases.push_back(OneNode("Mixed", "SumTo", {{2, 3, 4, 5}}, shape({3, 1, 5})));
}

inline KernelCase SplitCase(const std::string& name, const Shape& shape, int64_t axis, Ints sizes) {
  return OneNode(name, "Split", {shape}, Attributes().Set("axis", axis).Set("split", sizes));
}

// Both ways; the indices are below `result.classes`.
inline KernelCase GatherCase(const std::string& name, const Shape& x, int64_t axis,
                             const Shape& indices) {
  KernelCase result;
  result.name = "Gather" + name;
  result.classes = x[static_cast<int>(axis)];
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    const Attributes attributes = Attributes().Set("axis", axis);
    const ValueId at = net.In("indices", indices, DataType::kInt64);
    const ValueId y = net.Op("Gather", {net.In("x", x), at}, attributes)[0];
    net.Op("GatherGrad", {net.In("dy", net.shape(y)), at},
           Attributes(attributes).Set("x_shape", x.dims()));
    return net.status();
  };
  return result;
}

inline KernelCase WhereCase(const std::string& name, const Shape& condition, const Shape& a,
                            const Shape& b) {
  KernelCase result;
  result.name = "Where" + name;
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    const ValueId c = net.In("condition", condition, DataType::kBool);
    const ValueId y = net.Op("Where", {c, net.In("a", a), net.In("b", b)})[0];
    const ValueId dy = net.In("dy", net.shape(y));
    for (int64_t keep : {0, 1}) net.Op("WhereGrad", {c, dy}, Attributes().Set("keep", keep));
    return net.status();
  };
  return result;
}

inline void AddSelectionCases(std::vector<KernelCase>& cases) {
  const auto axis = [](int64_t value) { return Attributes().Set("axis", value); };
  cases.push_back(OneNode("Rows", "Concat", {{2, 7}, {3, 7}}, axis(0)));
  cases.push_back(OneNode("Columns", "Concat", {{5, 3}, {5, 1}, {5, 9}}, axis(1)));
  cases.push_back(OneNode("Channels", "Concat", {{2, 3, 4, 5}, {2, 16, 4, 5}}, axis(1)));
  cases.push_back(OneNode("Large", "Concat", {{40, 300}, {40, 400}}, axis(1)));
  cases.push_back(SplitCase("Rows", {5, 7}, 0, {1, 4}));
  cases.push_back(SplitCase("Heads", {2, 6, 12}, 2, {4, 4, 4}));
  cases.push_back(SplitCase("Channels", {2, 20, 4, 4}, 1, {3, 16, 1}));
  cases.push_back(GatherCase("Embedding", {11, 24}, 0, {3, 7}));
  cases.push_back(GatherCase("Wide", {5, 200}, 0, {300}));
  cases.push_back(GatherCase("Middle", {2, 6, 5, 7}, 1, {4}));
  cases.push_back(GatherCase("Last", {4, 9}, 1, {2, 3}));
  cases.push_back(GatherCase("One", {4, 9, 3}, 1, Shape()));
  cases.push_back(WhereCase("Same", {5, 33}, {5, 33}, {5, 33}));
  cases.push_back(WhereCase("Mask", {1, 1, 6, 6}, Shape(), {2, 3, 6, 6}));
  cases.push_back(WhereCase("MaskOfB", {6, 7}, {2, 6, 7}, {1}));
  cases.push_back(WhereCase("Both", {2, 1, 1}, {3, 1}, {4}));
  cases.push_back(WhereCase("Large", {200, 1}, {200, 300}, {300}));
}

inline KernelCase LayerNormCase(const std::string& name, const Shape& x, int64_t axis, bool bias,
                                bool weights = true) {
  KernelCase result;
  result.name = "LayerNormalization" + name;
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    const Shape normalized(Ints(x.dims().begin() + axis, x.dims().end()));
    const Attributes attributes = Attributes().Set("axis", axis).Set("epsilon", 1e-5);
    const ValueId in = net.In("x", x), scale = net.In("scale", normalized);
    std::vector<ValueId> inputs = {in, scale};
    if (bias) inputs.push_back(net.In("bias", normalized));
    const std::vector<ValueId> y = net.Op("LayerNormalization", inputs, attributes);
    net.Op("LayerNormalizationGrad", {net.In("dy", x), in, scale, y[1], y[2]}, attributes);
    if (!weights) {
      net.DropOutput(1);
      net.DropOutput(2);
      net.Op("LayerNormalization", inputs, attributes);
      net.DropOutput(1);
      net.DropOutput(2);
    }
    return net.status();
  };
  return result;
}

inline KernelCase SoftmaxCase(const std::string& name, const Shape& shape, int64_t axis) {
  KernelCase result;
  result.name = "Softmax" + name;
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    const Attributes attributes = Attributes().Set("axis", axis);
    const ValueId y = net.Op("Softmax", {net.In("wide_x", shape)}, attributes)[0];
    net.Op("SoftmaxGrad", {net.In("dy", shape), y}, attributes);
    return net.status();
  };
  return result;
}

inline KernelCase CrossEntropyCase(const std::string& name, const Shape& logits) {
  KernelCase result;
  result.name = "CrossEntropy" + name;
  result.classes = logits[logits.rank() - 1];
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    const Shape positions(Ints(logits.dims().begin(), logits.dims().end() - 1));
    const ValueId labels = net.In("labels", positions, DataType::kInt64);
    const auto loss = net.Op("CrossEntropy", {net.In("wide_logits", logits), labels});
    net.Op("CrossEntropyGrad", {loss[1], labels, net.In("dloss", Shape())});
    return net.status();
  };
  return result;
}

inline KernelCase MseCase(const Shape& shape) {
  KernelCase result;
  result.name = "Mse" + std::to_string(shape.elements());
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    const ValueId prediction = net.In("prediction", shape), target = net.In("target", shape);
    net.Op("Mse", {prediction, target});
    net.Op("MseGrad", {prediction, target, net.In("dloss", Shape())});
    return net.status();
  };
  return result;
}

inline std::vector<KernelCase> DenseKernelCases() {
  std::vector<KernelCase> cases;
  AddProductCases(cases);
  AddElementwiseCases(cases);
  AddMovementCases(cases);
  AddReductionCases(cases);
  AddSelectionCases(cases);
  cases.push_back(LayerNormCase("Rows", {6, 37}, 1, true));
  cases.push_back(LayerNormCase("Sequence", {3, 7, 24}, 2, true));
  cases.push_back(LayerNormCase("SeveralAxes", {4, 5, 6, 3}, 2, true));
  cases.push_back(LayerNormCase("Whole", {5, 9}, 0, false));
  cases.push_back(LayerNormCase("ManyRows", {900, 64}, 1, true));
  cases.push_back(LayerNormCase("LongRows", {3, 20000}, 1, false));
  cases.push_back(LayerNormCase("OnlyX", {3, 7, 24}, 2, true, false));
  cases.push_back(SoftmaxCase("Rows", {5, 37}, 1));
  cases.push_back(SoftmaxCase("One", {1, 1}, 1));
  cases.push_back(SoftmaxCase("First", {7, 70}, 0));
  cases.push_back(SoftmaxCase("Channels", {2, 6, 5, 7}, 1));
  cases.push_back(CrossEntropyCase("Classes", {16, 10}));
  cases.push_back(CrossEntropyCase("OneSample", {1, 1000}));
  cases.push_back(CrossEntropyCase("Sequence", {3, 7, 33}));
  cases.push_back(MseCase({5, 3}));
  cases.push_back(MseCase({40000}));
  return cases;
}

}  // namespace pipedream
