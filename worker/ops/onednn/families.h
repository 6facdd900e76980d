// One prepare function per operator or family of operators; registry.cc maps names to them.
#pragma once

#include "worker/ops/onednn/request.h"

namespace pipedream::onednn {

// conv.cc, conv_grad.cc
absl::StatusOr<PreparedKernel> PrepareConv(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareConvGradInput(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareConvGradWeight(const PrepareRequest& request);
// gemm.cc
absl::StatusOr<PreparedKernel> PrepareGemm(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareMatMul(const PrepareRequest& request);
// pool.cc
absl::StatusOr<PreparedKernel> PrepareMaxPool(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareMaxPoolGrad(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareAveragePool(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareAveragePoolGrad(const PrepareRequest& request);
// pool_loops.cc: row-major, any padding; what oneDNN's pooling cannot do.
absl::StatusOr<PreparedKernel> PrepareMaxPoolLoops(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareMaxPoolGradLoops(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareAveragePoolLoops(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareAveragePoolGradLoops(const PrepareRequest& request);
// batch_norm.cc
absl::StatusOr<PreparedKernel> PrepareBatchNorm(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareBatchNormInference(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareBatchNormGrad(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareUpdateRunningStatistics(const PrepareRequest& request);
// layer_norm.cc
absl::StatusOr<PreparedKernel> PrepareLayerNorm(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareLayerNormGrad(const PrepareRequest& request);
// lrn.cc, lrn_loops.cc
absl::StatusOr<PreparedKernel> PrepareLrn(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareLrnGrad(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareLrnLoops(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareLrnGradLoops(const PrepareRequest& request);
// elementwise.cc, elementwise_grad.cc, binary.cc
absl::StatusOr<PreparedKernel> PrepareElementwise(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareElementwiseGrad(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareBinary(const PrepareRequest& request);
// copies.cc
absl::StatusOr<PreparedKernel> PreparePad(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareSlice(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareReshape(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareTranspose(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareExpand(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareConcat(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareSplit(const PrepareRequest& request);
// gather.cc
absl::StatusOr<PreparedKernel> PrepareGather(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareGatherGrad(const PrepareRequest& request);
// where.cc
absl::StatusOr<PreparedKernel> PrepareWhere(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareWhereGrad(const PrepareRequest& request);
// reduce.cc
absl::StatusOr<PreparedKernel> PrepareReduce(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareSumTo(const PrepareRequest& request);
// softmax.cc
absl::StatusOr<PreparedKernel> PrepareSoftmax(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareSoftmaxGrad(const PrepareRequest& request);
// dropout.cc
absl::StatusOr<PreparedKernel> PrepareDropout(const PrepareRequest& request);
// loss.cc
absl::StatusOr<PreparedKernel> PrepareCrossEntropy(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareCrossEntropyGrad(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareMse(const PrepareRequest& request);
absl::StatusOr<PreparedKernel> PrepareMseGrad(const PrepareRequest& request);

// Null: this backend lacks the operator.
PrepareFn FindPrepare(std::string_view op);
std::span<const std::string_view> SupportedOps();

}  // namespace pipedream::onednn
