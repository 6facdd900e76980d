// Softmax, Dropout and their gradients.
#include "common/base/status.h"
#include "common/graph/op_defs/op_util.h"

namespace pipedream::op_defs {
namespace {

absl::Status CheckAxis(const Node& node, const Shape& x) {
  PD_RETURN_IF_ERROR(CheckHas(node, {"axis"}));
  int64_t axis = node.attributes.Int("axis");
  if (axis >= 0 && axis < x.rank()) return absl::OkStatus();
  return InvalidArgument("attribute axis is {}, expected an axis of {}", axis, x.ToString());
}

Inferred InferSoftmax(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}}));
  PD_RETURN_IF_ERROR(CheckAxis(node, inputs[0].shape));
  return Types{inputs[0]};
}

Inferred InferSoftmaxGrad(const Node& node, const Types& inputs) {
  PD_ASSIGN_OR_RETURN(Types types, InferUnaryGrad(node, inputs));
  PD_RETURN_IF_ERROR(CheckAxis(node, inputs[0].shape));
  return types;
}

Inferred InferDropout(const Node& node, const Types& inputs) {
  PD_RETURN_IF_ERROR(CheckInputs(node, inputs, {{"x"}}));
  PD_RETURN_IF_ERROR(CheckHas(node, {"ratio", "key"}));
  double ratio = node.attributes.Float("ratio");
  if (!(ratio >= 0 && ratio < 1)) {
    return InvalidArgument("attribute ratio is {}, expected 0 <= ratio < 1", ratio);
  }
  return Types{inputs[0]};
}

absl::Status SoftmaxGradient(GradientContext& context) {
  const Node& node = context.node();
  PD_ASSIGN_OR_RETURN(ValueId dx,
                      AddOne(context, "SoftmaxGrad", {context.output_gradient(0), node.outputs[0]},
                             node.attributes));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

absl::Status DropoutGradient(GradientContext& context) {
  PD_ASSIGN_OR_RETURN(ValueId dx, AddOne(context, "DropoutGrad", {context.output_gradient(0)},
                                         context.node().attributes));
  context.SetInputGradient(0, dx);
  return absl::OkStatus();
}

constexpr OpDef kSoftmaxOps[] = {
    {.name = "Softmax", .infer = InferSoftmax, .gradient = SoftmaxGradient},
    {.name = "SoftmaxGrad", .infer = InferSoftmaxGrad},
    {.name = "Dropout", .infer = InferDropout, .gradient = DropoutGradient},
    {.name = "DropoutGrad", .infer = InferDropout},
};

}  // namespace

std::span<const OpDef> SoftmaxOps() { return kSoftmaxOps; }

}  // namespace pipedream::op_defs
