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
