#include <array>
#include <string_view>
#include <utility>

#include "worker/ops/onednn/families.h"

namespace pipedream::onednn {
namespace {

struct RegistryEntry {
  std::string_view op;
  PrepareFn prepare;
};

constexpr RegistryEntry kRegistry[] = {
    {"Add", PrepareBinary},
    {"AveragePool", PrepareAveragePool},
    {"AveragePoolGrad", PrepareAveragePoolGrad},
    {"BatchNormalization", PrepareBatchNorm},
    {"BatchNormalizationGrad", PrepareBatchNormGrad},
    {"BatchNormalizationInference", PrepareBatchNormInference},
    {"Clip", PrepareElementwise},
    {"ClipGrad", PrepareElementwiseGrad},
    {"Concat", PrepareConcat},
    {"Conv", PrepareConv},
    {"ConvGradInput", PrepareConvGradInput},
    {"ConvGradWeight", PrepareConvGradWeight},
    {"CrossEntropy", PrepareCrossEntropy},
    {"CrossEntropyGrad", PrepareCrossEntropyGrad},
    {"Div", PrepareBinary},
    {"Dropout", PrepareDropout},
    {"DropoutGrad", PrepareDropout},
    {"Erf", PrepareElementwise},
    {"ErfGrad", PrepareElementwiseGrad},
    {"Expand", PrepareExpand},
    {"Gather", PrepareGather},
    {"GatherGrad", PrepareGatherGrad},
    {"Gelu", PrepareElementwise},
    {"GeluGrad", PrepareElementwiseGrad},
    {"GeluTanh", PrepareElementwise},
    {"GeluTanhGrad", PrepareElementwiseGrad},
    {"Gemm", PrepareGemm},
    {"HardSigmoid", PrepareElementwise},
    {"HardSigmoidGrad", PrepareElementwiseGrad},
    {"HardSwish", PrepareElementwise},
    {"HardSwishGrad", PrepareElementwiseGrad},
    {"LRN", PrepareLrn},
    {"LRNGrad", PrepareLrnGrad},
    {"LayerNormalization", PrepareLayerNorm},
    {"LayerNormalizationGrad", PrepareLayerNormGrad},
    {"MatMul", PrepareMatMul},
    {"MaxPool", PrepareMaxPool},
    {"MaxPoolGrad", PrepareMaxPoolGrad},
    {"Mse", PrepareMse},
    {"MseGrad", PrepareMseGrad},
    {"Mul", PrepareBinary},
    {"Pad", PreparePad},
    {"Pow", PrepareElementwise},
    {"ReduceMean", PrepareReduce},
    {"ReduceSum", PrepareReduce},
    {"Relu", PrepareElementwise},
    {"ReluGrad", PrepareElementwiseGrad},
    {"Reshape", PrepareReshape},
    {"Scale", PrepareElementwise},
    {"Sigmoid", PrepareElementwise},
    {"SigmoidGrad", PrepareElementwiseGrad},
    {"Slice", PrepareSlice},
    {"Softmax", PrepareSoftmax},
    {"SoftmaxGrad", PrepareSoftmaxGrad},
    {"Split", PrepareSplit},
    {"Sqrt", PrepareElementwise},
    {"Sub", PrepareBinary},
    {"SumTo", PrepareSumTo},
    {"Tanh", PrepareElementwise},
    {"TanhGrad", PrepareElementwiseGrad},
    {"Transpose", PrepareTranspose},
    {"UpdateRunningStatistics", PrepareUpdateRunningStatistics},
    {"Where", PrepareWhere},
    {"WhereGrad", PrepareWhereGrad},
};

}  // namespace

PrepareFn FindPrepare(std::string_view op) {
  for (const RegistryEntry& entry : kRegistry) {
    if (entry.op == op) return entry.prepare;
  }
  return nullptr;
}

std::span<const std::string_view> SupportedOps() {
  static const auto names = [] {
    std::array<std::string_view, std::size(kRegistry)> out;
    for (size_t i = 0; i < out.size(); ++i) out[i] = kRegistry[i].op;
    return out;
  }();
  return names;
}

}  // namespace pipedream::onednn
