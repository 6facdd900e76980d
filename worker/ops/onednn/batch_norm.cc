// Batch normalisation in the layout of convolutions (several times faster than row-major).
#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/primitive_kernel.h"

namespace pipedream::onednn {
namespace {

using dnnl::memory;
using dnnl::normalization_flags;
using dnnl::prop_kind;

// oneDNN wants at least one spatial axis to be fast; [N, C] becomes [N, C, 1, 1].
memory::desc DataDesc(const TensorSpec& spec) {
  memory::dims dims = DimsOf(spec.shape);
  while (spec.layout == nullptr && dims.size() < 4) dims.push_back(1);
  return DescOf(spec, dims);
}

dnnl::batch_normalization_forward::primitive_desc Forward(const PrepareRequest& request,
                                                          const memory::desc& data, bool training) {
  auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
  if (!training) flags |= normalization_flags::use_global_stats;
  const float epsilon = static_cast<float>(request.node.attributes.Float("epsilon"));
  return {
      {training ? prop_kind::forward_training : prop_kind::forward_inference, data, epsilon, flags},
      UserScratchpad(),
      Engine()};
}

// Where x lies during the computation: by its shape only, as the sums follow the layout.
TensorSpec WorkingSpec(const PrepareRequest& request, int input, bool training) {
  const TensorSpec blocked =
      SpecOf(ConvolvedDesc(request.input_shape(input)), request.input_shape(input));
  if (blocked.layout == nullptr) return blocked;
  return IsReference(Forward(request, DataDesc(blocked), training).impl_info_str())
             ? request.plain_input(input)
             : blocked;
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareBatchNorm(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const TensorSpec x = WorkingSpec(request, 0, true);
  const memory::desc data = DataDesc(x);
  const auto pd = Forward(request, data, true);
  const memory::desc channels = PlainDesc({request.input_shape(0)[1]});
  auto kernel = std::make_unique<PrimitiveKernel>(request, dnnl::batch_normalization_forward(pd));
  kernel->Input(DNNL_ARG_SRC, 0, data)
      .Input(DNNL_ARG_SCALE, 1, channels)
      .Input(DNNL_ARG_SHIFT, 2, channels)
      .Output(DNNL_ARG_DST, 0, data)
      .Output(DNNL_ARG_MEAN, 1, channels)
      .Output(DNNL_ARG_VARIANCE, 2, channels);
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = prepared.outputs[0] = x;
  prepared.scratch_bytes = scratch;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareBatchNormInference(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const TensorSpec x = WorkingSpec(request, 0, false);
  const memory::desc data = DataDesc(x);
  const auto pd = Forward(request, data, false);
  const memory::desc channels = PlainDesc({request.input_shape(0)[1]});
  auto kernel = std::make_unique<PrimitiveKernel>(request, dnnl::batch_normalization_forward(pd));
  kernel->Input(DNNL_ARG_SRC, 0, data)
      .Input(DNNL_ARG_SCALE, 1, channels)
      .Input(DNNL_ARG_SHIFT, 2, channels)
      .Input(DNNL_ARG_MEAN, 3, channels)
      .Input(DNNL_ARG_VARIANCE, 4, channels)
      .Output(DNNL_ARG_DST, 0, data);
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = prepared.outputs[0] = x;
  prepared.in_place[0] = 0;
  prepared.scratch_bytes = scratch;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareBatchNormGrad(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const TensorSpec x = WorkingSpec(request, 1, true);
  const memory::desc data = DataDesc(x);
  using dnnl::batch_normalization_backward;
  const float epsilon = static_cast<float>(request.node.attributes.Float("epsilon"));
  const batch_normalization_backward::primitive_desc pd(
      {prop_kind::backward, data, data, epsilon,
       normalization_flags::use_scale | normalization_flags::use_shift},
      UserScratchpad(), Engine(), Forward(request, data, true));
  const memory::desc channels = PlainDesc({request.input_shape(1)[1]});
  auto kernel = std::make_unique<PrimitiveKernel>(request, batch_normalization_backward(pd));
  // oneDNN 2.6 insists on a shift among the arguments and does not read it.
  kernel->Input(DNNL_ARG_DIFF_DST, 0, data)
      .Input(DNNL_ARG_SRC, 1, data)
      .Input(DNNL_ARG_SCALE, 2, channels)
      .Input(DNNL_ARG_SHIFT, 2, channels)
      .Input(DNNL_ARG_MEAN, 3, channels)
      .Input(DNNL_ARG_VARIANCE, 4, channels)
      .Output(DNNL_ARG_DIFF_SRC, 0, data)
      .Output(DNNL_ARG_DIFF_SCALE, 1, channels)
      .Output(DNNL_ARG_DIFF_SHIFT, 2, channels);
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = prepared.inputs[1] = prepared.outputs[0] = x;
  prepared.scratch_bytes = scratch;
  return prepared;
}

// running = momentum * running + (1 - momentum) * batch; the variance unbiased.
absl::StatusOr<PreparedKernel> PrepareUpdateRunningStatistics(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const double momentum = request.node.attributes.Float("momentum");
  const auto count = static_cast<double>(request.node.attributes.Int("count"));
  const double unbias = count > 1 ? count / (count - 1) : 1;
  auto run = [=, channels = request.input_shape(0).elements()](const KernelArguments& args) {
    const float *mean = FloatIn(args, 0), *variance = FloatIn(args, 1);
    // States are inputs that this operator, alone, changes.
    auto* running_mean = static_cast<float*>(const_cast<void*>(args.inputs[2]));
    auto* running_variance = static_cast<float*>(const_cast<void*>(args.inputs[3]));
    for (int64_t c = 0; c < channels; ++c) {
      running_mean[c] = static_cast<float>(momentum * running_mean[c] + (1 - momentum) * mean[c]);
      running_variance[c] = static_cast<float>(momentum * running_variance[c] +
                                               (1 - momentum) * unbias * variance[c]);
    }
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, run));
}

}  // namespace pipedream::onednn
