// Translators: one ONNX operator, of any opset, becomes canonical nodes. A translator reads its
// node through a Translation, emits nodes, and sets every output that is wanted.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/graph/graph.h"
#include "common/graph/model.h"
#include "common/graph/onnx/flat_model.h"
#include "common/graph/onnx/node_attributes.h"

namespace pipedream::onnx_import {

class Binder;

// One node being translated. Errors that a translator returns lack the node's name: kUnimplemented
// for what we do not support (collected), kInvalidArgument for what is wrong.
class Translation {
 public:
  Translation(Binder& binder, const FlatNode& node)
      : attributes(node), binder_(binder), node_(node) {}

  NodeAttributes attributes;

  const FlatNode& node() const { return node_; }
  int64_t opset() const { return node_.opset; }
  GraphForm form() const;

  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  bool HasInput(int i) const { return i < input_count() && !node_.inputs[i].empty(); }
  // REQUIRES for the following: HasInput(i).
  const Shape& InputShape(int i) const;
  DataType InputType(int i) const;
  // The input as a value of the graph: a parameter, a constant or a computed value.
  ValueId Input(int i);
  // The input as running statistics. kUnimplemented if the file does not give its value.
  absl::StatusOr<ValueId> StateInput(int i);
  bool IsConstant(int i) const;         // known now and not training
  const Tensor& Constant(int i) const;  // REQUIRES: IsConstant(i)
  // Values of a constant input. kUnimplemented if it is computed at run time.
  absl::StatusOr<std::vector<int64_t>> ConstantInts(int i) const;
  absl::StatusOr<double> ConstantFloat(int i) const;  // of one element
  // Axes, sizes and the like: an attribute in older opsets, input `i` in newer ones; nullopt if
  // neither is there.
  absl::StatusOr<std::optional<std::vector<int64_t>>> IntsFrom(std::string_view attribute, int i);
  // When a fixed batch is bound to another size: the shape constant `target` (input `i`) with the
  // old batch in its leading entry replaced, if input 0 carries the batch there.
  std::vector<int64_t> Rebatched(std::vector<int64_t> target, int i) const;

  bool WantsOutput(int i) const;
  // Adds an intermediate node; returns its outputs.
  absl::StatusOr<std::vector<ValueId>> Emit(std::string_view op, std::vector<ValueId> inputs,
                                            Attributes attributes = {});
  // Adds the node whose output 0 is the ONNX node's output 0; it bears the ONNX node's name.
  absl::StatusOr<std::vector<ValueId>> EmitOutput(std::string_view op, std::vector<ValueId> inputs,
                                                  Attributes attributes = {});
  // Adds the node whose outputs are the ONNX node's outputs, one for one.
  absl::Status EmitOutputs(std::string_view op, std::vector<ValueId> inputs, Attributes attributes);
  // Output 0 is input `i` itself.
  absl::Status Alias(int i);
  // A Reshape to `dims`, or an alias where the shape is that already.
  absl::Status EmitReshape(std::vector<int64_t> dims);
  const Shape& ShapeOf(ValueId id) const;

 private:
  // ONNX output `i` is `id`.
  void DefineOutput(size_t i, ValueId id);

  Binder& binder_;
  const FlatNode& node_;
  int emitted_ = 0;
};

using TranslateFunction = absl::Status (*)(Translation& t);

struct Translator {
  std::string_view op;
  TranslateFunction translate;
  int min_inputs;
  int max_inputs;
  int max_outputs = 1;
};

// Null if no translator handles the operator of the default domain.
const Translator* FindTranslator(std::string_view op);

// One list per file.
std::vector<Translator> ConvolutionTranslators();
std::vector<Translator> MatMulTranslators();
std::vector<Translator> ElementwiseTranslators();
std::vector<Translator> PoolTranslators();
std::vector<Translator> NormalizationTranslators();
std::vector<Translator> ShapeTranslators();
std::vector<Translator> SelectionTranslators();
std::vector<Translator> ReductionTranslators();
std::vector<Translator> LossTranslators();

// Kernel, strides, dilations and pads of an operator over windows, resolved to numbers.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: all begins, then all ends
  bool grew = false;  // ceil mode made the end pads larger than the file says
};
// `kernel` is empty to take attribute kernel_shape. Reads auto_pad and ceil_mode too.
absl::StatusOr<Window> ReadWindow(Translation& t, std::vector<int64_t> kernel);

// FNV-1a: the same on every machine and in every build.
int64_t StableHash(std::string_view text);

}  // namespace pipedream::onnx_import
