#include "common/base/status.h"
#include "worker/ops/onednn/conv_geometry.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/primitive_kernel.h"

namespace pipedream::onednn {

absl::StatusOr<PreparedKernel> PrepareConvGradInput(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const ConvGeometry geometry = GeometryOf(request.node, request.output_shape(0),
                                           request.input_shape(1), request.input_shape(0));
  using dnnl::convolution_backward_data;
  const convolution_backward_data::desc desc(
      dnnl::algorithm::convolution_direct, AnyDesc(geometry.x), AnyDesc(geometry.w),
      AnyDesc(geometry.y), geometry.strides, geometry.dilations, geometry.begin, geometry.end);
  const convolution_backward_data::primitive_desc pd(desc, UserScratchpad(), Engine(),
                                                     ForwardConvolution(geometry, false));
  auto kernel = std::make_unique<PrimitiveKernel>(request, convolution_backward_data(pd));
  kernel->Input(DNNL_ARG_DIFF_DST, 0, pd.diff_dst_desc())
      .Input(DNNL_ARG_WEIGHTS, 1, pd.weights_desc())
      .Output(DNNL_ARG_DIFF_SRC, 0, pd.diff_src_desc());
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = SpecOf(pd.diff_dst_desc(), request.input_shape(0));
  prepared.inputs[1] = SpecOf(pd.weights_desc(), request.input_shape(1));
  prepared.outputs[0] = SpecOf(pd.diff_src_desc(), request.output_shape(0));
  prepared.scratch_bytes = scratch;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareConvGradWeight(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const bool bias = request.has_output(1);
  const ConvGeometry geometry = GeometryOf(request.node, request.input_shape(0),
                                           request.output_shape(0), request.input_shape(1));
  using dnnl::convolution_backward_weights;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto x = AnyDesc(geometry.x), w = AnyDesc(geometry.w), y = AnyDesc(geometry.y);
  const convolution_backward_weights::desc desc =
      bias ? convolution_backward_weights::desc(algorithm, x, w, PlainDesc({geometry.outputs}), y,
                                                geometry.strides, geometry.dilations,
                                                geometry.begin, geometry.end)
           : convolution_backward_weights::desc(algorithm, x, w, y, geometry.strides,
                                                geometry.dilations, geometry.begin, geometry.end);
  const convolution_backward_weights::primitive_desc pd(desc, UserScratchpad(), Engine(),
                                                        ForwardConvolution(geometry, bias));
  auto kernel = std::make_unique<PrimitiveKernel>(request, convolution_backward_weights(pd));
  kernel->Input(DNNL_ARG_SRC, 0, pd.src_desc())
      .Input(DNNL_ARG_DIFF_DST, 1, pd.diff_dst_desc())
      .Output(DNNL_ARG_DIFF_WEIGHTS, 0, pd.diff_weights_desc());
  if (bias) kernel->Output(DNNL_ARG_DIFF_BIAS, 1, pd.diff_bias_desc());
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = SpecOf(pd.src_desc(), request.input_shape(0));
  prepared.inputs[1] = SpecOf(pd.diff_dst_desc(), request.input_shape(1));
  prepared.outputs[0] = SpecOf(pd.diff_weights_desc(), request.output_shape(0));
  prepared.scratch_bytes = scratch;
  return prepared;
}

}  // namespace pipedream::onednn
