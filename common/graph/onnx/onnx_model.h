// Model over an ONNX file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/graph/model.h"
#include "common/graph/onnx/binder.h"
#include "common/graph/onnx/flat_model.h"
#include "common/graph/onnx/weights.h"

namespace pipedream::onnx_import {

class OnnxModel : public Model {
 public:
  static absl::StatusOr<std::shared_ptr<const OnnxModel>> Load(const std::string& path,
                                                               const ImportLimits& limits);

  absl::StatusOr<Graph> Bind(const BindOptions& options) const override;
  const std::vector<ModelInput>& inputs() const override { return inputs_; }
  const std::vector<std::string>& output_names() const override { return output_names_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }
  const std::string& content_hash() const override { return hash_; }
  std::vector<std::string> external_files() const override {
    std::vector<std::string> locations;
    for (const auto& [location, file] : files_.opened()) locations.push_back(location);
    return locations;
  }
  absl::Status Export(const std::map<std::string, Tensor>& trained,
                      const std::string& path) const override;

 private:
  explicit OnnxModel(std::string folder) : files_(std::move(folder)) {}
  absl::Status Read(const std::string& path, const ImportLimits& limits);
  // Binds once, at the file's own batch or at 2, so that everything unsupported is known at once.
  absl::Status TryOut();
  absl::Status Hash(const std::string& path);

  ExternalFiles files_;  // all opened while loading
  TensorSource source_;
  FlatModel flat_;
  WeightRoles roles_;  // without patterns
  ReferenceShapes reference_;
  std::vector<ModelInput> inputs_;
  std::vector<std::string> output_names_;
  std::vector<std::string> warnings_;
  std::string hash_;
};

// What importing changed or guessed, in words.
std::vector<std::string> CollectWarnings(const FlatModel& model, const WeightRoles& roles);

}  // namespace pipedream::onnx_import
