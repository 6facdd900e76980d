// BatchNormalization and Dropout as a model that is used, not trained, has them.
#pragma once

namespace onnx {
class ModelProto;
}

namespace pipedream::onnx_import {

// Nodes whose extra outputs (statistics, masks) are read stay as they are.
void ToInferenceForm(onnx::ModelProto* model);

}  // namespace pipedream::onnx_import
