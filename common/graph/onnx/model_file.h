// Reading the .onnx file itself: sizes, protobuf, and an error that says what kind of broken it is.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/graph/model.h"

namespace onnx {
class ModelProto;
}

namespace pipedream::onnx_import {

inline constexpr int kMaxMessageDepth = 100;  // as protobuf's own default

// kNotFound; kResourceExhausted beyond limits.max_model_bytes; kInvalidArgument for an empty,
// truncated, too deeply nested or foreign file.
absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> ReadModelFile(const std::string& path,
                                                                      const ImportLimits& limits);
// The same from memory; `path` is for messages.
absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> ParseModel(std::span<const std::byte> bytes,
                                                                   const std::string& path);

}  // namespace pipedream::onnx_import
