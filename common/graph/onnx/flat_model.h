// The model as the importer works on it: functions inlined, dead nodes gone, names unique,
// constants read. Borrows attributes from the ModelProto, which it keeps alive.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/model.h"
#include "common/graph/onnx/tensor_data.h"

namespace onnx {
class AttributeProto;
class ModelProto;
}  // namespace onnx

namespace pipedream::onnx_import {

struct FlatNode {
  std::string name;  // unique, never empty
  std::string op;
  std::string domain;               // "" for the default domain
  int64_t opset = 0;                // of its domain
  std::vector<std::string> inputs;  // "" where absent
  std::vector<std::string> outputs;
  std::map<std::string, const onnx::AttributeProto*, std::less<>> attributes;
};

// A tensor whose value the file gives.
struct FlatConstant {
  enum class Source {
    kInitializer,
    kConstantNode,
    kFilled,  // ConstantOfShape: a weight whose values were taken out
  };
  Source source = Source::kInitializer;
  Tensor value;           // empty where `unusable` is set
  absl::Status unusable;  // its type is not supported; an error only where it is read
  int onnx_type = 0;
};

struct FlatInput {
  std::string name;
  DataType dtype = DataType::kFloat32;  // computing type
  int onnx_type = 0;
  int64_t batch = 0;         // fixed leading dimension, or 0
  std::string batch_symbol;  // "N", or empty
  Shape sample_shape;
};

struct FlatOutput {
  std::string name;
  std::string batch_symbol;  // of its declared leading dimension, or empty
};

// Where a constant inside a function body lives, for export.
struct FunctionConstant {
  int function = 0;
  int node = 0;
  bool operator==(const FunctionConstant&) const = default;
};

struct FlatModel {
  std::shared_ptr<const onnx::ModelProto> proto;
  std::vector<FlatNode> nodes;  // live ones, topological
  std::map<std::string, FlatConstant> constants;
  std::map<std::string, FunctionConstant> function_constants;
  std::vector<FlatInput> inputs;
  std::vector<FlatOutput> outputs;
  std::vector<std::shared_ptr<const onnx::AttributeProto>> owned;  // that are not in `proto`
  int dropped_nodes = 0;

  // The fixed leading dimension that the inputs share, or 0 when it is free.
  int64_t fixed_batch() const;
};

// REQUIRES: ValidateModel passed. kInvalidArgument: a function that calls itself, a bad function
// body, inputs with different fixed batches. kResourceExhausted: inlining passes 200,000 nodes, or
// tensors made by ConstantOfShape pass 4 GiB.
absl::StatusOr<FlatModel> Flatten(const TensorSource& source);

}  // namespace pipedream::onnx_import
