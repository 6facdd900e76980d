// TensorProto -> Tensor: dims and data checked against each other before anything is touched, bytes
// shared with the message or the mapped external file wherever the type allows.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/file.h"
#include "common/graph/types.h"

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace pipedream::onnx_import {

// External data files of one model, mapped once each. They must lie in or below `folder`.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& location);
  const std::map<std::string, std::shared_ptr<const MappedFile>>& opened() const { return files_; }

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

struct TensorSource {
  std::shared_ptr<const onnx::ModelProto> model;  // keeps the messages alive
  ExternalFiles* files = nullptr;
  int64_t max_tensor_bytes = 0;
};

// Are its data in a file beside the model?
bool IsExternal(const onnx::TensorProto& tensor);

// Dims and the amount of data agree, external data exists. `what` names the tensor in messages
// ("initializer 'fc.weight'"). kInvalidArgument, kNotFound, kResourceExhausted.
absl::Status CheckTensor(const onnx::TensorProto& tensor, const std::string& what,
                         const TensorSource& source);

// In computing types: double becomes float32, every integer int64. kUnimplemented for other types.
absl::StatusOr<Tensor> ReadTensor(const onnx::TensorProto& tensor, const std::string& what,
                                  const TensorSource& source);

// The computing type of an ONNX element type (float32, int64, bool, uint8); false if there is none.
bool ComputeType(int onnx_type, DataType* type);
// "float16", "string"; "type 77" for an unknown number.
std::string OnnxTypeName(int onnx_type);

}  // namespace pipedream::onnx_import
