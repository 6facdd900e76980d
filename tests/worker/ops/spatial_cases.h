// Cases of operators on [N, C, D1..Dk].
#pragma once

#include "tests/worker/ops/kernel_cases.h"

namespace pipedream {

struct ConvCase {
  std::string name;
  Shape x, w;
  Ints strides, pads, dilations;
  int64_t group = 1;
  bool bias = true;
};

inline Attributes ConvAttributes(const ConvCase& c) {
  return Attributes()
      .Set("kernel", Ints(c.w.dims().begin() + 2, c.w.dims().end()))
      .Set("strides", c.strides)
      .Set("pads", c.pads)
      .Set("dilations", c.dilations)
      .Set("group", c.group);
}

inline KernelCase MakeConvCase(const ConvCase& c) {
  KernelCase result;
  result.name = "Conv" + c.name;
  result.build = [c](GraphBuilder& builder) {
    Net net(builder);
    const ValueId x = net.In("x", c.x), w = net.Weight("w", c.w);
    std::vector<ValueId> inputs = {x, w};
    if (c.bias) inputs.push_back(net.Weight("b", Shape({c.w[0]})));
    const Attributes attributes = ConvAttributes(c);
    const ValueId y = net.Op("Conv", inputs, attributes)[0];
    const ValueId dy = net.In("dy", net.shape(y));
    net.Op("ConvGradInput", {dy, w}, Attributes(attributes).Set("x_shape", c.x.dims()));
    net.Op("ConvGradWeight", {x, dy}, Attributes(attributes).Set("w_shape", c.w.dims()));
    if (!c.bias) net.DropOutput(1);
    return net.status();
  };
  return result;
}

struct PoolCase {
  std::string name;
  Shape x;
  Ints kernel, strides, pads;
  Ints dilations = {};
};

inline Attributes PoolAttributes(const PoolCase& c) {
  return Attributes().Set("kernel", c.kernel).Set("strides", c.strides).Set("pads", c.pads);
}

inline KernelCase MakeMaxPoolCase(const PoolCase& c, bool training) {
  KernelCase result;
  result.name = (training ? "MaxPool" : "MaxPoolInference") + c.name;
  result.build = [c, training](GraphBuilder& builder) {
    Net net(builder);
    Attributes attributes = PoolAttributes(c);
    attributes.Set("dilations", c.dilations.empty() ? Ints(c.kernel.size(), 1) : c.dilations);
    const std::vector<ValueId> y = net.Op("MaxPool", {net.In("x", c.x)}, attributes);
    if (!training) {
      net.DropOutput(1);
      return net.status();
    }
    const ValueId dy = net.In("dy", net.shape(y[0]));
    net.Op("MaxPoolGrad", {dy, y[1]}, attributes.Set("x_shape", c.x.dims()));
    return net.status();
  };
  return result;
}

inline KernelCase MakeAveragePoolCase(const PoolCase& c, bool include) {
  KernelCase result;
  result.name = (include ? "AveragePoolWithPadding" : "AveragePool") + c.name;
  result.build = [c, include](GraphBuilder& builder) {
    Net net(builder);
    Attributes attributes = PoolAttributes(c).Set("count_include_pad", int64_t{include});
    const ValueId y = net.Op("AveragePool", {net.In("x", c.x)}, attributes)[0];
    const ValueId dy = net.In("dy", net.shape(y));
    net.Op("AveragePoolGrad", {dy}, attributes.Set("x_shape", c.x.dims()));
    return net.status();
  };
  return result;
}

inline KernelCase MakeBatchNormCase(const std::string& name, const Shape& x) {
  KernelCase result;
  result.name = "BatchNormalization" + name;
  result.tolerance = 3e-5;
  result.build = [x](GraphBuilder& builder) {
    Net net(builder);
    const Shape channels({x[1]});
    const ValueId in = net.In("x", x), dy = net.In("dy", x);
    const ValueId scale = net.Weight("scale", channels), bias = net.Weight("bias", channels);
    const Attributes epsilon = Attributes().Set("epsilon", 1e-5);
    const std::vector<ValueId> y = net.Op("BatchNormalization", {in, scale, bias}, epsilon);
    net.Op("BatchNormalizationGrad", {dy, in, scale, y[1], y[2]}, epsilon);
    net.Op("BatchNormalizationInference",
           {in, scale, bias, net.In("mean", channels), net.In("positive_variance", channels)},
           epsilon);
    return net.status();
  };
  return result;
}

inline KernelCase MakeLrnCase(const std::string& name, const Shape& x, int64_t size, double beta,
                              bool training) {
  KernelCase result;
  result.name = "LRN" + name;
  result.build = [=](GraphBuilder& builder) {
    Net net(builder);
    const Attributes attributes =
        Attributes().Set("size", size).Set("alpha", 0.3).Set("beta", beta).Set("bias", 1.5);
    const ValueId in = net.In("x", x), dy = net.In("dy", x);
    const std::vector<ValueId> y = net.Op("LRN", {in}, attributes);
    if (training)
      net.Op("LRNGrad", {dy, in, y[1]}, attributes);
    else
      net.DropOutput(1);
    return net.status();
  };
  return result;
}

inline std::vector<KernelCase> SpatialKernelCases() {
  std::vector<KernelCase> cases;
  for (const ConvCase& c : std::vector<ConvCase>{
           {"Odd", {5, 3, 9, 7}, {6, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
           {"OneSample", {1, 16, 8, 8}, {32, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
           {"NoBias", {2, 20, 6, 6}, {24, 20, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, false},
           {"StridedAsymmetric", {2, 5, 11, 10}, {7, 5, 3, 2}, {2, 3}, {0, 1, 1, 2}, {1, 1}},
           {"Dilated", {2, 8, 12, 12}, {8, 8, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}},
           {"Grouped", {3, 12, 7, 7}, {18, 4, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 3},
           {"Depthwise", {2, 24, 9, 9}, {24, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 24},
           {"DepthwiseTwice", {1, 6, 5, 5}, {12, 1, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 6},
           {"GroupedByBlocks",
            {2, 32, 6, 6},
            {32, 16, 3, 3},
            {1, 1},
            {1, 1, 1, 1},
            {1, 1},
            2,
            false},
           {"LargeKernel", {1, 3, 35, 33}, {16, 3, 11, 11}, {4, 4}, {2, 2, 2, 2}, {1, 1}},
           {"WideChannels", {2, 64, 7, 7}, {48, 64, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
           {"OneAxis", {2, 6, 17}, {10, 6, 5}, {2}, {2, 1}, {1}},
           {"ThreeAxes",
            {2, 4, 5, 6, 7},
            {6, 4, 3, 2, 3},
            {1, 2, 1},
            {1, 0, 1, 1, 1, 0},
            {1, 1, 1}},
           {"PaddingBeyondKernel", {1, 3, 4, 4}, {4, 3, 2, 2}, {1, 1}, {3, 3, 2, 2}, {1, 1}}}) {
    cases.push_back(MakeConvCase(c));
  }
  for (const PoolCase& c : std::vector<PoolCase>{
           {"Half", {5, 6, 8, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
           {"Overlapping", {1, 16, 13, 13}, {3, 3}, {2, 2}, {0, 0, 0, 0}},
           {"Padded", {2, 19, 9, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
           {"Asymmetric", {2, 5, 10, 9}, {3, 2}, {2, 2}, {0, 0, 1, 1}},
           {"WholePlane", {3, 20, 7, 5}, {7, 5}, {1, 1}, {0, 0, 0, 0}},
           {"OneAxis", {2, 3, 11}, {3}, {2}, {1, 1}},
           {"ThreeAxes", {1, 4, 5, 6, 7}, {2, 3, 2}, {2, 2, 1}, {0, 1, 0, 1, 1, 0}},
           {"PaddingBeyondKernel", {2, 3, 5, 5}, {2, 2}, {4, 4}, {0, 0, 2, 2}}}) {
    cases.push_back(MakeMaxPoolCase(c, true));
    cases.push_back(MakeMaxPoolCase(c, false));
    cases.push_back(MakeAveragePoolCase(c, false));
    cases.push_back(MakeAveragePoolCase(c, true));
  }
  cases.push_back(
      MakeMaxPoolCase({"Dilated", {2, 5, 12, 12}, {3, 3}, {1, 2}, {1, 2, 1, 2}, {2, 2}}, true));
  cases.push_back(MakeBatchNormCase("Images", {5, 7, 6, 5}));
  cases.push_back(MakeBatchNormCase("BlockedImages", {2, 32, 9, 9}));
  cases.push_back(MakeBatchNormCase("Rows", {16, 10}));
  cases.push_back(MakeBatchNormCase("Sequences", {4, 6, 11}));
  cases.push_back(MakeBatchNormCase("Volumes", {2, 6, 3, 4, 5}));
  cases.push_back(MakeLrnCase("Five", {2, 32, 6, 5}, 5, 0.75, true));
  cases.push_back(MakeLrnCase("FiveOdd", {1, 9, 4, 4}, 5, 0.75, true));
  cases.push_back(MakeLrnCase("Three", {2, 7, 4, 4}, 3, 0.5, true));
  cases.push_back(MakeLrnCase("Even", {2, 7, 4, 4}, 4, 0.75, true));
  cases.push_back(MakeLrnCase("Sequence", {2, 7, 9}, 3, 0.75, true));
  cases.push_back(MakeLrnCase("Inference", {2, 16, 5, 5}, 5, 0.75, false));
  return cases;
}

}  // namespace pipedream
