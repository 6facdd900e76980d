// Pools on oneDNN in a layout that follows from the shape: oneDNN adds up windows, and gradients
// where windows overlap, in another order in another layout. What it cannot do goes to
// pool_loops.cc.
#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/pool_window.h"
#include "worker/ops/onednn/primitive_kernel.h"

namespace pipedream::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::pooling_backward;
using dnnl::pooling_forward;
using dnnl::prop_kind;

struct Geometry {
  memory::dims kernel, strides, begin, end;
};
Geometry GeometryOf(const Node& node) {
  const std::vector<int64_t> pads = node.attributes.Ints("pads");
  Geometry geometry{node.attributes.Ints("kernel"), node.attributes.Ints("strides"), {}, {}};
  const size_t k = geometry.kernel.size();
  geometry.begin.assign(pads.begin(), pads.begin() + k);
  geometry.end.assign(pads.begin() + k, pads.end());
  return geometry;
}

algorithm AverageOf(const Node& node) {
  return node.attributes.Int("count_include_pad") != 0 ? algorithm::pooling_avg_include_padding
                                                       : algorithm::pooling_avg_exclude_padding;
}

pooling_forward::primitive_desc Forward(const Node& node, prop_kind kind, algorithm how,
                                        const memory::desc& x, const memory::desc& y) {
  const Geometry g = GeometryOf(node);
  return {{kind, how, x, y, g.strides, g.kernel, g.begin, g.end}, UserScratchpad(), Engine()};
}

struct Ends {
  memory::desc x, y;
};
// The output in the input's family of formats, so that blocked regions stay whole.
Ends WorkingDescs(const Node& node, prop_kind kind, algorithm how, const Shape& x, const Shape& y) {
  const memory::desc blocked = ConvolvedDesc(x);
  const Ends ends = {blocked, DescLike(blocked, DimsOf(y))};
  if (!IsReference(Forward(node, kind, how, ends.x, ends.y).impl_info_str())) return ends;
  return {PlainDesc(DimsOf(x)), PlainDesc(DimsOf(y))};
}

bool CanPool(const PrepareRequest& request, const Shape& x, const Shape& y) {
  return OneDnnCanPool(WindowOf(request.node, x, y));
}

std::shared_ptr<WorkspaceLayout> LayoutOfWorkspace(const pooling_forward::primitive_desc& pd) {
  auto layout = std::make_shared<WorkspaceLayout>();
  layout->workspace = pd.workspace_desc();
  layout->source = pd.src_desc();
  layout->destination = pd.dst_desc();
  layout->key = "max_pool " + KeyOf(layout->workspace) + " " + KeyOf(layout->source) + " " +
                KeyOf(layout->destination);
  return layout;
}

absl::StatusOr<PreparedKernel> PrepareForward(const PrepareRequest& request, algorithm how) {
  const bool keep = how == algorithm::pooling_max && request.is_read(1);
  const prop_kind kind = keep ? prop_kind::forward_training : prop_kind::forward_inference;
  const auto [source, destination] =
      WorkingDescs(request.node, kind, how, request.input_shape(0), request.output_shape(0));
  const auto pd = Forward(request.node, kind, how, source, destination);
  auto kernel = std::make_unique<PrimitiveKernel>(request, pooling_forward(pd));
  kernel->Input(DNNL_ARG_SRC, 0, source).Output(DNNL_ARG_DST, 0, destination);
  if (keep) kernel->Output(DNNL_ARG_WORKSPACE, 1, pd.workspace_desc());
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = SpecOf(source, request.input_shape(0));
  prepared.outputs[0] = SpecOf(destination, request.output_shape(0));
  if (keep) {
    prepared.outputs[1].layout = LayoutOfWorkspace(pd);
    prepared.outputs[1].bytes = pd.workspace_desc().get_size();
  }
  prepared.scratch_bytes = scratch;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareBackward(const PrepareRequest& request, algorithm how,
                                               const pooling_forward::primitive_desc& forward,
                                               bool workspace) {
  const Geometry g = GeometryOf(request.node);
  const memory::desc source = forward.src_desc(), destination = forward.dst_desc();
  const pooling_backward::primitive_desc pd(
      {how, source, destination, g.strides, g.kernel, g.begin, g.end}, UserScratchpad(), Engine(),
      forward);
  auto kernel = std::make_unique<PrimitiveKernel>(request, pooling_backward(pd));
  kernel->Input(DNNL_ARG_DIFF_DST, 0, destination).Output(DNNL_ARG_DIFF_SRC, 0, source);
  if (workspace) kernel->Input(DNNL_ARG_WORKSPACE, 1, pd.workspace_desc());
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = SpecOf(destination, request.input_shape(0));
  if (workspace) prepared.inputs[1] = request.offered(1);
  prepared.outputs[0] = SpecOf(source, request.output_shape(0));
  prepared.scratch_bytes = scratch;
  return prepared;
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareMaxPool(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  if (!CanPool(request, request.input_shape(0), request.output_shape(0))) {
    return PrepareMaxPoolLoops(request);
  }
  return PrepareForward(request, algorithm::pooling_max);
}

absl::StatusOr<PreparedKernel> PrepareAveragePool(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  if (!CanPool(request, request.input_shape(0), request.output_shape(0))) {
    return PrepareAveragePoolLoops(request);
  }
  return PrepareForward(request, AverageOf(request.node));
}

absl::StatusOr<PreparedKernel> PrepareMaxPoolGrad(const PrepareRequest& request) {
  const auto* layout = dynamic_cast<const WorkspaceLayout*>(request.offered(1).layout.get());
  if (layout == nullptr) {
    return Internal("input 1 is not the workspace that MaxPool made");
  }
  if (layout->key == kLoopWorkspaceKey) return PrepareMaxPoolGradLoops(request);
  const auto forward = Forward(request.node, prop_kind::forward_training, algorithm::pooling_max,
                               layout->source, layout->destination);
  return PrepareBackward(request, algorithm::pooling_max, forward, true);
}

absl::StatusOr<PreparedKernel> PrepareAveragePoolGrad(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  if (!CanPool(request, request.output_shape(0), request.input_shape(0))) {
    return PrepareAveragePoolGradLoops(request);
  }
  const auto [source, destination] =
      WorkingDescs(request.node, prop_kind::forward_training, AverageOf(request.node),
                   request.output_shape(0), request.input_shape(0));
  const auto forward = Forward(request.node, prop_kind::forward_training, AverageOf(request.node),
                               source, destination);
  return PrepareBackward(request, AverageOf(request.node), forward, false);
}

}  // namespace pipedream::onednn
