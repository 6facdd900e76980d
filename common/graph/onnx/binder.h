// One pass over a FlatModel that makes a Graph for one batch size: folds what is known, translates
// the rest, and keeps a list of everything that is not supported.
#pragma once

#include <absl/status/statusor.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "common/graph/model.h"
#include "common/graph/onnx/flat_model.h"
#include "common/graph/onnx/fold.h"
#include "common/graph/onnx/translate.h"
#include "common/graph/onnx/weights.h"

namespace pipedream::onnx_import {

// What a pass knows about one tensor of the file.
struct Tracked {
  enum class Kind {
    kConstant,  // known now: `data`
    kComputed,  // at run time: `id`
    kUnknown,   // behind an unsupported node; type and shape are not known
  };
  Kind kind = Kind::kComputed;
  DataType dtype = DataType::kFloat32;
  Shape shape;
  Tensor data;
  std::string source;  // the constant of the file that it is, or empty
  bool trains = false;
  bool shape_arithmetic = false;  // made from shapes of computed tensors, or would have been
  ValueId id = kNoValue;          // once it is in the graph
  int batch_axis = -1;            // of computed tensors, when a fixed batch is bound anew
};

// Shapes of computed tensors at the batch that the file was exported for.
using ReferenceShapes = std::map<std::string, Shape>;

struct BinderInput {
  const FlatModel& model;
  const WeightRoles& roles;
  TensorSource source;
  int64_t batch = 1;
  GraphForm form = GraphForm::kTraining;
  const ReferenceShapes* reference = nullptr;  // when rebinding
};

// Use once. Not thread-safe; the inputs must outlive it.
class Binder {
 public:
  explicit Binder(const BinderInput& input);

  // kUnimplemented with the complete list of unsupported nodes; kInvalidArgument names the node
  // that does not fit.
  absl::StatusOr<Graph> Run();
  // After Run.
  const ReferenceShapes& shapes() const { return shapes_; }

 private:
  friend class Translation;

  absl::Status AddInputs();
  void AddConstants();
  absl::Status Visit(const FlatNode& node);
  absl::Status VisitKnown(const FlatNode& node, const Translator* translator, FoldFunction fold);
  // Sets *done where the node was evaluated.
  absl::Status TryFold(const FlatNode& node, const Translator* translator, FoldFunction fold,
                       bool* done);
  absl::Status FoldShape(const FlatNode& node);
  absl::Status Translate(const FlatNode& node, const Translator& translator);
  bool AllConstant(const FlatNode& node) const;
  // Unknown outputs; they count as shape arithmetic if nothing else feeds them.
  void SetUnknown(const FlatNode& node, bool shape_arithmetic);
  void Refuse(const FlatNode& node, std::string_view reason);
  // Checks that outputs follow the batch and finds the axis that does.
  absl::Status FollowBatch(const FlatNode& node);
  absl::Status FollowBatch(const FlatNode& node, const std::string& output);
  absl::Status AddOutputs();
  absl::Status UnsupportedError() const;
  absl::Status NodeError(const FlatNode& node, const absl::Status& status) const;

  bool rebinding() const {
    return in_.reference != nullptr && in_.model.fixed_batch() != in_.batch;
  }
  const Tracked& Get(const std::string& name) const { return tracked_[by_name_.at(name)]; }
  Tracked& Get(const std::string& name) { return tracked_[by_name_.at(name)]; }
  void Define(const std::string& name, Tracked tracked);
  // `name` means the same tensor as `original`.
  void DefineAlias(const std::string& name, const std::string& original) {
    by_name_[name] = by_name_.at(original);
  }
  ValueId Materialize(const std::string& name);

  BinderInput in_;
  GraphBuilder builder_;
  std::deque<Tracked> tracked_;  // references stay valid
  std::map<std::string, int> by_name_;
  std::set<std::string> wanted_;  // tensors that a node or the user reads
  std::vector<std::string> unsupported_;
  ReferenceShapes shapes_;
};

}  // namespace pipedream::onnx_import
