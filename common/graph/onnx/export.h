// The user's own model with trained values in it.
#pragma once

#include <absl/status/status.h>

#include <map>
#include <string>

#include "common/graph/onnx/flat_model.h"

namespace pipedream::onnx_import {

struct ExportOptions {
  // Above this the weights go to "<file name>.data" beside the model. They also do when any of the
  // model's tensors was external.
  int64_t max_inline_bytes = int64_t{2000} << 20;
};

// Writes `model` to `path` with `trained` in place of the constants of those names; see
// Model::Export. `source` reads what stays.
absl::Status ExportModel(const FlatModel& model, const std::map<std::string, Tensor>& trained,
                         const TensorSource& source, const std::string& path,
                         const ExportOptions& options = {});

}  // namespace pipedream::onnx_import
