// A user's ONNX model, read and checked. Importing is two steps: Load (once; checks everything that
// does not depend on the batch, inlines functions, refuses with the complete list of what is
// unsupported) and Bind (per microbatch size; gives a Graph with all shapes known).
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "common/graph/types.h"

namespace pipedream {

struct ImportLimits {
  int64_t max_model_bytes = int64_t{2} << 30;       // of the .onnx file itself
  int64_t max_tensor_bytes = int64_t{64} << 30;     // of any one tensor, external data included
};

enum class GraphForm {
  kTraining,   // BatchNormalization uses batch statistics, Dropout drops
  kInference,  // as the model is used: running statistics, no dropout
};

struct BindOptions {
  int64_t batch = 1;                        // bound to the symbolic or fixed leading axis of inputs
  GraphForm form = GraphForm::kTraining;
  // Shell patterns on tensor names that override the rule. A tensor that both match trains, so that
  // freeze "*" with train "head.*" trains the head. kInvalidArgument for one that matches nothing.
  std::vector<std::string> train = {};
  std::vector<std::string> freeze = {};
};

struct ModelInput {
  std::string name;
  DataType dtype;
  Shape sample_shape;   // without the batch axis
};

// Thread-safe after loading (const). Cheap to share, never copied.
class Model {
 public:
  // Reads `path`; external data must lie in the same folder or below. Errors: kNotFound, kInvalidArgument
  // (what is wrong, in which node or tensor), kUnimplemented (every unsupported node: name, op,
  // opset, reason), kResourceExhausted beyond `limits`.
  static absl::StatusOr<std::shared_ptr<const Model>> Load(const std::string& path,
                                                           const ImportLimits& limits = {});
  virtual ~Model() = default;

  virtual absl::StatusOr<Graph> Bind(const BindOptions& options) const = 0;
  // Inputs that the user must feed (initialisers that are also inputs are not among them).
  virtual const std::vector<ModelInput>& inputs() const = 0;
  virtual const std::vector<std::string>& output_names() const = 0;
  // What importing changed or guessed, for the user: "weights w1 and w2 are tied through Identity".
  virtual const std::vector<std::string>& warnings() const = 0;
  // SHA-256 over the file and its external data.
  virtual const std::string& content_hash() const = 0;
  // External data files that its tensors name, relative to the model's folder.
  virtual std::vector<std::string> external_files() const { return {}; }

  // Writes the user's own model with `trained` in place of the initialisers (or Constant nodes) of
  // those names: same names, order, types (a float64 initialiser stays float64) and symbolic axes. BatchNormalization and Dropout go
  // back to inference form. External data is written beside as "<name>.data" when the result would
  // pass 2 GB. Atomic: the file appears whole or not at all. kInvalidArgument for an unknown name or
  // a wrong shape.
  virtual absl::Status Export(const std::map<std::string, Tensor>& trained,
                              const std::string& path) const = 0;
};

}  // namespace pipedream
