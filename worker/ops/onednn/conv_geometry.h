// Attributes of a convolution as oneDNN wants them.
#pragma once

#include "worker/ops/onednn/layout.h"

namespace pipedream::onednn {

struct ConvGeometry {
  dnnl::memory::dims x;  // [N, C, D1..Dk]
  dnnl::memory::dims w;  // [M, C/g, k..]; [g, M/g, C/g, k..] when grouped
  dnnl::memory::dims y;
  dnnl::memory::dims strides;
  dnnl::memory::dims dilations;  // oneDNN counts the holes: ONNX's less one
  dnnl::memory::dims begin;      // padding
  dnnl::memory::dims end;
  int64_t outputs = 0;  // M
};

ConvGeometry GeometryOf(const Node& node, const Shape& x, const Shape& w, const Shape& y);

// The forward primitive with every layout open; also the hint of the gradient primitives.
dnnl::convolution_forward::primitive_desc ForwardConvolution(const ConvGeometry& geometry,
                                                             bool bias);

}  // namespace pipedream::onednn
