// Attributes of an ONNX node read by name, with ONNX's defaults given by the caller.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/onnx/flat_model.h"

namespace onnx {
class TensorProto;
}

namespace pipedream::onnx_import {

// Collects the first error (an attribute of the wrong type) in status(), so that callers read all
// they need and check once.
class NodeAttributes {
 public:
  explicit NodeAttributes(const FlatNode& node) : node_(node) {}

  bool Has(std::string_view name) const { return node_.attributes.contains(name); }
  int64_t Int(std::string_view name, int64_t fallback);
  double Float(std::string_view name, double fallback);
  std::string String(std::string_view name, std::string_view fallback);
  std::vector<int64_t> Ints(std::string_view name, std::vector<int64_t> fallback = {});
  // Null when absent.
  const onnx::TensorProto* TensorValue(std::string_view name);
  const absl::Status& status() const { return status_; }

 private:
  const onnx::AttributeProto* Find(std::string_view name, int type);

  const FlatNode& node_;
  absl::Status status_;
};

}  // namespace pipedream::onnx_import
