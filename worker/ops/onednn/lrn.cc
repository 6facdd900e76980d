// Local response normalisation across channels on oneDNN, in a layout that follows from the shape:
// oneDNN adds the channels up in another order in another layout. Even sizes, whose window is not
// symmetric, go to lrn_loops.cc.
#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/primitive_kernel.h"

namespace pipedream::onednn {
namespace {

using dnnl::lrn_backward;
using dnnl::lrn_forward;
using dnnl::memory;
using dnnl::prop_kind;

constexpr auto kAcross = dnnl::algorithm::lrn_across_channels;

bool CanNormalize(const PrepareRequest& request, const Shape& x) {
  return request.node.attributes.Int("size") % 2 == 1 && x.rank() == 4;
}

lrn_forward::primitive_desc Forward(const Node& node, prop_kind kind, const memory::desc& data) {
  const Attributes& a = node.attributes;
  return {{kind, kAcross, data, a.Int("size"), static_cast<float>(a.Float("alpha")),
           static_cast<float>(a.Float("beta")), static_cast<float>(a.Float("bias"))},
          UserScratchpad(),
          Engine()};
}

memory::desc WorkingDesc(const Node& node, prop_kind kind, const Shape& x) {
  const memory::desc blocked = ConvolvedDesc(x);
  return IsReference(Forward(node, kind, blocked).impl_info_str()) ? PlainDesc(DimsOf(x)) : blocked;
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareLrn(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  if (!CanNormalize(request, request.input_shape(0))) return PrepareLrnLoops(request);
  const bool keep = request.is_read(1);
  const prop_kind kind = keep ? prop_kind::forward_training : prop_kind::forward_inference;
  const memory::desc data = WorkingDesc(request.node, kind, request.input_shape(0));
  const TensorSpec x = SpecOf(data, request.input_shape(0));
  const auto pd = Forward(request.node, kind, data);
  auto kernel = std::make_unique<PrimitiveKernel>(request, lrn_forward(pd));
  kernel->Input(DNNL_ARG_SRC, 0, data).Output(DNNL_ARG_DST, 0, data);
  const memory::desc workspace = keep ? pd.workspace_desc() : memory::desc();
  if (workspace.get_size() != 0) kernel->Output(DNNL_ARG_WORKSPACE, 1, workspace);
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = prepared.outputs[0] = x;
  if (keep) {
    auto layout = std::make_shared<WorkspaceLayout>();
    layout->workspace = workspace;
    layout->source = layout->destination = data;
    layout->key = "lrn " + (workspace ? KeyOf(workspace) : "none") + " " + KeyOf(data);
    prepared.outputs[1].layout = layout;
    prepared.outputs[1].bytes = workspace.get_size();
  }
  prepared.scratch_bytes = scratch;
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareLrnGrad(const PrepareRequest& request) {
  if (!CanNormalize(request, request.input_shape(1))) return PrepareLrnGradLoops(request);
  const auto* layout = dynamic_cast<const WorkspaceLayout*>(request.offered(2).layout.get());
  if (layout == nullptr) return Internal("input 2 is not the workspace that LRN made");
  const memory::desc data = layout->source;
  const Attributes& a = request.node.attributes;
  const lrn_backward::primitive_desc pd(
      {kAcross, data, data, a.Int("size"), static_cast<float>(a.Float("alpha")),
       static_cast<float>(a.Float("beta")), static_cast<float>(a.Float("bias"))},
      UserScratchpad(), Engine(), Forward(request.node, prop_kind::forward_training, data));
  auto kernel = std::make_unique<PrimitiveKernel>(request, lrn_backward(pd));
  kernel->Input(DNNL_ARG_DIFF_DST, 0, data)
      .Input(DNNL_ARG_SRC, 1, data)
      .Output(DNNL_ARG_DIFF_SRC, 0, data);
  if (layout->workspace) kernel->Input(DNNL_ARG_WORKSPACE, 2, layout->workspace);
  const size_t scratch = BindScratchpad(pd, *kernel);
  PreparedKernel prepared = request.Plain(std::move(kernel));
  prepared.inputs[0] = prepared.inputs[1] = SpecOf(data, request.input_shape(1));
  prepared.inputs[2] = request.offered(2);
  prepared.outputs[0] = SpecOf(data, request.output_shape(0));
  prepared.scratch_bytes = scratch;
  return prepared;
}

}  // namespace pipedream::onednn
