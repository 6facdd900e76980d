#include "common/graph/onnx/onnx_model.h"

#include <exception>
#include <filesystem>
#include <new>

#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/graph/onnx/export.h"
#include "common/graph/onnx/model_file.h"
#include "common/graph/onnx/validate.h"

namespace pipedream {

absl::StatusOr<std::shared_ptr<const Model>> Model::Load(const std::string& path,
                                                         const ImportLimits& limits) {
  // The message classes and containers may throw for lack of memory.
  try {
    auto model = onnx_import::OnnxModel::Load(path, limits);
    if (!model.ok()) return model.status();
    return std::shared_ptr<const Model>(*std::move(model));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("not enough memory to load '{}'", path);
  } catch (const std::exception& error) {
    return InvalidArgument("model '{}' cannot be read: {}", path, error.what());
  }
}

namespace onnx_import {

absl::StatusOr<std::shared_ptr<const OnnxModel>> OnnxModel::Load(const std::string& path,
                                                                 const ImportLimits& limits) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  std::shared_ptr<OnnxModel> model(new OnnxModel(folder.empty() ? "." : folder));
  PD_RETURN_IF_ERROR(model->Read(path, limits));
  if (absl::Status status = model->TryOut(); !status.ok())
    return Annotate(status, fmt::format("model '{}'", path));
  PD_RETURN_IF_ERROR(model->Hash(path));
  return model;
}

absl::Status OnnxModel::Read(const std::string& path, const ImportLimits& limits) {
  PD_ASSIGN_OR_RETURN(source_.model, ReadModelFile(path, limits));
  source_.files = &files_;
  source_.max_tensor_bytes = limits.max_tensor_bytes;
  absl::Status valid = ValidateModel(*source_.model, source_);
  if (!valid.ok()) return Annotate(valid, fmt::format("model '{}'", path));
  auto flat = Flatten(source_);
  if (!flat.ok()) return Annotate(flat.status(), fmt::format("model '{}'", path));
  flat_ = *std::move(flat);
  PD_ASSIGN_OR_RETURN(roles_, FindWeights(flat_, {}, {}));
  for (const FlatInput& input : flat_.inputs)
    inputs_.push_back({input.name, input.dtype, input.sample_shape});
  for (const FlatOutput& output : flat_.outputs) output_names_.push_back(output.name);
  warnings_ = CollectWarnings(flat_, roles_);
  return absl::OkStatus();
}

absl::Status OnnxModel::TryOut() {
  int64_t batch = flat_.fixed_batch() > 0 ? flat_.fixed_batch() : 2;
  Binder binder({.model = flat_, .roles = roles_, .source = source_, .batch = batch});
  auto graph = binder.Run();
  if (!graph.ok()) return graph.status();
  reference_ = binder.shapes();
  return absl::OkStatus();
}

absl::Status OnnxModel::Hash(const std::string& path) {
  Sha256 hash;
  auto add = [&](std::span<const std::byte> bytes) {
    hash.Update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  add(file->bytes());
  for (const auto& [location, data] : files_.opened()) {
    hash.Update(fmt::format("\n{} {}\n", location, data->bytes().size()));
    add(data->bytes());
  }
  hash_ = hash.HexDigest();
  return absl::OkStatus();
}

absl::StatusOr<Graph> OnnxModel::Bind(const BindOptions& options) const {
  if (options.batch < 1) return InvalidArgument("batch is {}, expected at least 1", options.batch);
  WeightRoles own;
  if (!options.train.empty() || !options.freeze.empty()) {
    PD_ASSIGN_OR_RETURN(own, FindWeights(flat_, options.train, options.freeze));
  }
  const WeightRoles& roles = options.train.empty() && options.freeze.empty() ? roles_ : own;
  Binder binder({.model = flat_,
                 .roles = roles,
                 .source = source_,
                 .batch = options.batch,
                 .form = options.form,
                 .reference = flat_.fixed_batch() > 0 ? &reference_ : nullptr});
  return binder.Run();
}

absl::Status OnnxModel::Export(const std::map<std::string, Tensor>& trained,
                               const std::string& path) const {
  return ExportModel(flat_, trained, source_, path);
}

}  // namespace onnx_import
}  // namespace pipedream
