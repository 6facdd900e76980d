#include "common/base/status.h"
#include "worker/ops/onednn/conv_geometry.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/primitive_kernel.h"

namespace pipedream::onednn {

using dnnl::memory;

ConvGeometry GeometryOf(const Node& node, const Shape& x, const Shape& w, const Shape& y) {
  ConvGeometry geometry;
  geometry.x = DimsOf(x);
  geometry.w = DimsOf(w);
  geometry.y = DimsOf(y);
  geometry.outputs = w[0];
  const int64_t group = node.attributes.Int("group", 1);
  if (group > 1) {
    geometry.w[0] /= group;
    geometry.w.insert(geometry.w.begin(), group);
  }
  const size_t k = x.rank() - 2;
  const std::vector<int64_t> pads = node.attributes.Ints("pads");
  geometry.strides = node.attributes.Ints("strides");
  geometry.dilations = node.attributes.Ints("dilations");
  if (geometry.strides.empty()) geometry.strides.assign(k, 1);
  if (geometry.dilations.empty()) geometry.dilations.assign(k, 1);
  for (int64_t& dilation : geometry.dilations) --dilation;
  geometry.begin.assign(k, 0);
  geometry.end.assign(k, 0);
  if (pads.size() == 2 * k) {
    std::copy(pads.begin(), pads.begin() + k, geometry.begin.begin());
    std::copy(pads.begin() + k, pads.end(), geometry.end.begin());
  }
  return geometry;
}

dnnl::convolution_forward::primitive_desc ForwardConvolution(const ConvGeometry& geometry,
                                                             bool bias) {
  using dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const memory::desc x = AnyDesc(geometry.x), w = AnyDesc(geometry.w), y = AnyDesc(geometry.y);
  const convolution_forward::desc desc =
      bias ? convolution_forward::desc(kind, algorithm, x, w, PlainDesc({geometry.outputs}), y,
                                       geometry.strides, geometry.dilations, geometry.begin,
                                       geometry.end)
           : convolution_forward::desc(kind, algorithm, x, w, y, geometry.strides,
                                       geometry.dilations, geometry.begin, geometry.end);
  return convolution_forward::primitive_desc(desc, UserScratchpad(), Engine());
}

absl::StatusOr<PreparedKernel> PrepareConv(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const bool bias = request.has_input(2);
  const ConvGeometry geometry = GeometryOf(request.node, request.input_shape(0),
                                           request.input_shape(1), request.output_shape(0));
  const auto pd = ForwardConvolution(geometry, bias);
  auto kernel = std::make_unique<PrimitiveKernel>(request, dnnl::convolution_forward(pd));
  kernel->Input(DNNL_ARG_SRC, 0, pd.src_desc())
      .Input(DNNL_ARG_WEIGHTS, 1, pd.weights_desc())
      .Output(DNNL_ARG_DST, 0, pd.dst_desc());
  if (bias) kernel->Input(DNNL_ARG_BIAS, 2, pd.bias_desc());
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = SpecOf(pd.src_desc(), request.input_shape(0));
  prepared.inputs[1] = SpecOf(pd.weights_desc(), request.input_shape(1));
  prepared.outputs[0] = SpecOf(pd.dst_desc(), request.output_shape(0));
  prepared.scratch_bytes = scratch;
  return prepared;
}

}  // namespace pipedream::onednn
