#include "common/base/status.h"
#include "common/graph/onnx/translate.h"

namespace pipedream::onnx_import {
namespace {

absl::Status TranslateCrossEntropy(Translation& t) {
  if (t.HasInput(2)) return Unimplemented("weights per class");
  if (t.WantsOutput(1)) return Unimplemented("its log probabilities are used");
  if (t.attributes.Has("ignore_index")) return Unimplemented("ignore_index");
  std::string reduction = t.attributes.String("reduction", "mean");
  PD_RETURN_IF_ERROR(t.attributes.status());
  if (reduction != "mean") return Unimplemented("reduction '{}' (only 'mean' is)", reduction);
  int rank = t.InputShape(0).rank();
  if (rank < 2)
    return InvalidArgument("scores are {}, expected [N, C, ..]", t.InputShape(0).ToString());
  ValueId logits = t.Input(0);
  if (rank > 2) {  // the class axis goes last
    std::vector<int64_t> perm{0};
    for (int i = 2; i < rank; ++i) perm.push_back(i);
    perm.push_back(1);
    PD_ASSIGN_OR_RETURN(auto moved, t.Emit("Transpose", {logits}, Attributes().Set("perm", perm)));
    logits = moved[0];
  }
  return t.EmitOutput("CrossEntropy", {logits, t.Input(1)}).status();
}

}  // namespace

std::vector<Translator> LossTranslators() {
  return {{"SoftmaxCrossEntropyLoss", TranslateCrossEntropy, 2, 3, 2}};
}

}  // namespace pipedream::onnx_import
