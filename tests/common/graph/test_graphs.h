// Short ways to write small graphs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/graph.h"
#include "common/graph/training_graph.h"
#include "tests/support/status_matchers.h"

namespace pipedream {

inline Tensor RandomTensor(const Shape& shape, std::mt19937& random, float low = -1,
                           float high = 1) {
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> data(shape.elements());
  for (float& v : data) v = uniform(random);
  return Tensor::FromVector<float>(shape, data);
}

// All outputs; fails the test and aborts when the node does not fit.
inline std::vector<ValueId> AddAll(GraphBuilder& builder, std::string name, std::string_view op,
                                   std::vector<ValueId> inputs, Attributes attributes = {}) {
  auto outputs = builder.AddNode(std::move(name), op, std::move(inputs), std::move(attributes));
  EXPECT_OK(outputs);
  return *std::move(outputs);
}

inline ValueId AddOp(GraphBuilder& builder, std::string name, std::string_view op,
                     std::vector<ValueId> inputs, Attributes attributes = {}) {
  return AddAll(builder, std::move(name), op, std::move(inputs), std::move(attributes))[0];
}

inline Graph MustBuild(GraphBuilder builder) {
  auto graph = std::move(builder).Build();
  EXPECT_OK(graph);
  return *std::move(graph);
}

using Ints = std::vector<int64_t>;

inline Attributes WindowAttributes(Ints kernel, Ints strides, Ints pads, Ints dilations = {}) {
  Attributes attributes;
  attributes.Set("kernel", kernel).Set("strides", strides).Set("pads", pads);
  if (!dilations.empty()) attributes.Set("dilations", dilations);
  return attributes;
}

inline Attributes ConvAttributes(Ints kernel, Ints strides, Ints pads, Ints dilations,
                                 int64_t group = 1) {
  return WindowAttributes(kernel, strides, pads, dilations).Set("group", group);
}

// 3x3, stride 1, padding 1.
inline Attributes Conv3x3() { return ConvAttributes({3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}); }

inline Attributes GemmAttributes(bool trans_a = false, bool trans_b = false, double alpha = 1,
                                 double beta = 1) {
  return Attributes()
      .Set("trans_a", int64_t{trans_a})
      .Set("trans_b", int64_t{trans_b})
      .Set("alpha", alpha)
      .Set("beta", beta);
}

inline LossTerm CrossEntropyOn(std::string output, std::string label, double weight = 1) {
  return {LossTerm::Kind::kCrossEntropy, std::move(output), std::move(label), weight};
}
inline LossTerm MseOn(std::string output, std::string label, double weight = 1) {
  return {LossTerm::Kind::kMse, std::move(output), std::move(label), weight};
}
inline LossTerm OutputAsLoss(std::string output, double weight = 1) {
  return {LossTerm::Kind::kOutput, std::move(output), "", weight};
}

// conv, batch normalisation, relu, a residual block whose skip passes two convolutions, max pool,
// linear layer with bias. Output "logits:0" [4, 3]; input "x" [4, 2, 6, 6].
inline Graph ResidualNet(uint32_t seed = 1) {
  std::mt19937 random(seed);
  GraphBuilder builder;
  auto parameter = [&](std::string name, Shape shape) {
    return builder.AddParameter(std::move(name), RandomTensor(shape, random, -0.5, 0.5));
  };
  ValueId x = builder.AddInput("x", DataType::kFloat32, Shape({4, 2, 6, 6}));
  ValueId conv1 =
      AddOp(builder, "conv1", "Conv", {x, parameter("w1", Shape({3, 2, 3, 3}))}, Conv3x3());
  std::vector<ValueId> bn =
      AddAll(builder, "bn", "BatchNormalization",
             {conv1, parameter("scale", Shape({3})), parameter("shift", Shape({3}))},
             Attributes().Set("epsilon", 1e-5));
  ValueId mean = builder.AddState("running_mean", Tensor::FromVector<float>(Shape({3}), {0, 0, 0}));
  ValueId variance =
      builder.AddState("running_variance", Tensor::FromVector<float>(Shape({3}), {1, 1, 1}));
  AddAll(builder, "update", "UpdateRunningStatistics", {bn[1], bn[2], mean, variance},
         Attributes().Set("momentum", 0.9).Set("count", int64_t{4 * 36}));
  ValueId relu1 = AddOp(builder, "relu1", "Relu", {bn[0]});
  ValueId conv2 =
      AddOp(builder, "conv2", "Conv",
            {relu1, parameter("w2", Shape({3, 3, 3, 3})), parameter("b2", Shape({3}))}, Conv3x3());
  ValueId relu2 = AddOp(builder, "relu2", "Relu", {conv2});
  ValueId conv3 =
      AddOp(builder, "conv3", "Conv", {relu2, parameter("w3", Shape({3, 3, 3, 3}))}, Conv3x3());
  ValueId add = AddOp(builder, "add", "Add", {conv3, relu1});
  ValueId pool = AddOp(builder, "pool", "MaxPool", {add},
                       WindowAttributes({2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}));
  ValueId flat = AddOp(builder, "flat", "Reshape", {pool}, Attributes().Set("shape", Ints{4, 27}));
  ValueId logits =
      AddOp(builder, "logits", "Gemm",
            {flat, parameter("w4", Shape({27, 3})), parameter("b4", Shape({3}))}, GemmAttributes());
  builder.AddOutput(logits);
  return MustBuild(std::move(builder));
}

inline NodeId FindNode(const Graph& graph, std::string_view name) {
  for (int i = 0; i < graph.node_count(); ++i) {
    if (graph.node(NodeId(i)).name == name) return NodeId(i);
  }
  return kNoNode;
}

inline ValueId GradientOf(const TrainingGraph& training, std::string_view parameter) {
  for (const ParameterGradient& g : training.gradients) {
    if (training.graph.value(g.parameter).name == parameter) return g.gradient;
  }
  return kNoValue;
}

}  // namespace pipedream
