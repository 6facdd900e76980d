#include "common/graph/onnx/binder.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"

namespace pipedream::onnx_import {
namespace {

// Floats up to this size are folded even where a translator exists. Attention masks must be: they
// reach their comparison through Slice. 2^20 is the mask of 1024 positions.
constexpr int64_t kFoldedFloats = int64_t{1} << 20;

std::string Label(const FlatNode& node) {
  return fmt::format("node '{}' ({})", node.name, node.op);
}

std::string Text(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

}  // namespace

Binder::Binder(const BinderInput& input) : in_(input) {
  for (const FlatNode& node : in_.model.nodes)
    wanted_.insert(node.inputs.begin(), node.inputs.end());
  for (const FlatOutput& output : in_.model.outputs) wanted_.insert(output.name);
}

absl::Status Binder::NodeError(const FlatNode& node, const absl::Status& status) const {
  std::string text = Text(status);
  absl::Status named = text.starts_with("node '") ? status : Annotate(status, Label(node));
  if (!rebinding()) return named;
  return Annotate(named,
                  fmt::format("the model was exported for batch {} and cannot be bound to {}",
                              in_.model.fixed_batch(), in_.batch));
}

void Binder::Define(const std::string& name, Tracked tracked) {
  by_name_[name] = static_cast<int>(tracked_.size());
  tracked_.push_back(std::move(tracked));
}

ValueId Binder::Materialize(const std::string& name) {
  Tracked& tracked = Get(name);
  if (tracked.id != kNoValue || tracked.kind != Tracked::Kind::kConstant) return tracked.id;
  const std::string& own = tracked.source.empty() ? name : tracked.source;
  tracked.id = tracked.trains ? builder_.AddParameter(own, tracked.data)
                              : builder_.AddConstant(own, tracked.data);
  return tracked.id;
}

absl::Status Binder::AddInputs() {
  for (const FlatInput& input : in_.model.inputs) {
    std::vector<int64_t> dims = input.sample_shape.dims();
    dims.insert(dims.begin(), in_.batch);
    int64_t elements = 0;
    if (!CheckedElements(dims, int64_t{1} << 42, &elements))
      return InvalidArgument("graph input '{}': shape [{}] has more than 2^42 elements", input.name,
                             fmt::join(dims, ", "));
    Tracked tracked;
    tracked.dtype = input.dtype;
    tracked.shape = Shape(std::move(dims));
    tracked.id = builder_.AddInput(input.name, tracked.dtype, tracked.shape);
    tracked.batch_axis = 0;
    Define(input.name, std::move(tracked));
  }
  return absl::OkStatus();
}

void Binder::AddConstants() {
  for (const auto& [name, constant] : in_.model.constants) {
    Tracked tracked;
    tracked.source = name;
    if (constant.value.empty()) {
      tracked.kind = Tracked::Kind::kUnknown;
      Define(name, std::move(tracked));
      unsupported_.push_back(Text(constant.unusable));
      continue;
    }
    tracked.kind = Tracked::Kind::kConstant;
    tracked.dtype = constant.value.dtype();
    tracked.shape = constant.value.shape();
    tracked.data = constant.value;
    tracked.trains = in_.roles.trains.contains(name);
    Define(name, std::move(tracked));
  }
}

void Binder::SetUnknown(const FlatNode& node, bool shape_arithmetic) {
  for (const std::string& output : node.outputs) {
    if (output.empty()) continue;
    Tracked tracked;
    tracked.kind = Tracked::Kind::kUnknown;
    tracked.shape_arithmetic = shape_arithmetic;
    Define(output, std::move(tracked));
  }
}

void Binder::Refuse(const FlatNode& node, std::string_view reason) {
  unsupported_.push_back(fmt::format("node '{}': {}{} (opset {}): {}", node.name,
                                     node.domain.empty() ? "" : node.domain + ".", node.op,
                                     node.opset, reason));
  SetUnknown(node, false);
}

bool Binder::AllConstant(const FlatNode& node) const {
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    const Tracked& tracked = Get(input);
    if (tracked.kind != Tracked::Kind::kConstant || tracked.trains) return false;
  }
  return true;
}

absl::Status Binder::FoldShape(const FlatNode& node) {
  if (node.inputs.size() != 1 || node.inputs[0].empty() || node.outputs.size() != 1)
    return NodeError(node, InvalidArgument("it needs one input and one output"));
  const Tracked& x = Get(node.inputs[0]);
  if (x.kind == Tracked::Kind::kUnknown) {
    SetUnknown(node, true);
    return absl::OkStatus();
  }
  std::vector<int64_t> values = x.shape.dims();
  if (node.op == "Size") values = {x.shape.elements()};
  NodeAttributes attributes(node);
  int64_t rank = x.shape.rank();
  if (node.op == "Shape") {  // opset 15 may take a part
    auto range = ClampSlice(attributes.Int("start", 0), attributes.Int("end", rank), 1, rank);
    if (!range.ok() || !attributes.status().ok())
      return NodeError(node, range.ok() ? attributes.status() : range.status());
    values.assign(x.shape.dims().begin() + range->start,
                  x.shape.dims().begin() + range->start + range->count);
  }
  Tracked result;
  result.kind = Tracked::Kind::kConstant;
  result.dtype = DataType::kInt64;
  result.shape = node.op == "Size" ? Shape{} : Shape{static_cast<int64_t>(values.size())};
  result.data = Tensor::FromVector(result.shape, values);
  result.shape_arithmetic = x.kind == Tracked::Kind::kComputed;
  Define(node.outputs[0], std::move(result));
  return absl::OkStatus();
}

absl::Status Binder::TryFold(const FlatNode& node, const Translator* translator, FoldFunction fold,
                             bool* done) {
  *done = false;
  if (fold == nullptr || !AllConstant(node) || node.outputs.size() != 1) return absl::OkStatus();
  Tracked result;
  // Identity keeps the name of the file's constant.
  if (node.op == "Identity" && !node.inputs.empty() && !node.inputs[0].empty())
    return absl::OkStatus();
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    const Tracked& tracked = Get(input);
    result.shape_arithmetic = result.shape_arithmetic || tracked.shape_arithmetic;
    // Running statistics keep their name in the file.
    bool kept =
        tracked.shape.elements() > kFoldedFloats || in_.roles.states.contains(tracked.source);
    if (translator != nullptr && IsFloat(tracked.dtype) && kept) return absl::OkStatus();
  }
  std::vector<HostArray> arrays(node.inputs.size());
  FoldInputs inputs(node.inputs.size(), nullptr);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty()) continue;
    auto array = ToHostArray(Get(node.inputs[i]).data);
    if (!array.ok()) {
      Refuse(node, Text(array.status()));
      *done = true;
      return absl::OkStatus();
    }
    arrays[i] = *std::move(array);
    inputs[i] = &arrays[i];
  }
  auto folded = fold(node, inputs, in_.source);
  *done = true;
  if (absl::IsUnimplemented(folded.status())) {
    *done = translator == nullptr;  // else it is a node of the graph
    if (*done) Refuse(node, Text(folded.status()));
    return absl::OkStatus();
  }
  if (!folded.ok()) return NodeError(node, folded.status());
  result.kind = Tracked::Kind::kConstant;
  result.dtype = folded->dtype;
  result.shape = Shape(folded->dims);
  result.data = ToTensor(*folded);
  Define(node.outputs[0], std::move(result));
  return absl::OkStatus();
}

absl::Status Binder::Translate(const FlatNode& node, const Translator& translator) {
  int inputs = static_cast<int>(node.inputs.size());
  bool first_missing = false;
  for (int i = 0; i < std::min(inputs, translator.min_inputs); ++i)
    first_missing = first_missing || node.inputs[i].empty();
  if (inputs < translator.min_inputs || inputs > translator.max_inputs || first_missing)
    return NodeError(node, InvalidArgument("it has {} inputs{}, expected {} to {}", inputs,
                                           first_missing ? " with one left out" : "",
                                           translator.min_inputs, translator.max_inputs));
  if (node.outputs.empty() || node.outputs[0].empty() ||
      static_cast<int>(node.outputs.size()) > translator.max_outputs)
    return NodeError(node, InvalidArgument("it has {} outputs, expected 1 to {}",
                                           node.outputs.size(), translator.max_outputs));
  Translation translation(*this, node);
  absl::Status status = translator.translate(translation);
  if (absl::IsUnimplemented(status)) {
    Refuse(node, Text(status));
    return absl::OkStatus();
  }
  if (!status.ok()) return NodeError(node, status);
  if (!by_name_.contains(node.outputs[0]))
    return NodeError(node, Internal("the translator made no output"));
  return FollowBatch(node);
}

absl::Status Binder::VisitKnown(const FlatNode& node, const Translator* translator,
                                FoldFunction fold) {
  bool done = false;
  PD_RETURN_IF_ERROR(TryFold(node, translator, fold, &done));
  if (done) return absl::OkStatus();
  if (translator != nullptr) return Translate(node, *translator);
  Refuse(node, fold != nullptr ? "supported only on constants and shapes"
                               : "this operator is not supported");
  return absl::OkStatus();
}

absl::Status Binder::Visit(const FlatNode& node) {
  if (!node.domain.empty()) {
    Refuse(node, "an operator of a custom domain without a function body in the model");
    return absl::OkStatus();
  }
  if (node.op == "Shape" || node.op == "Size") return FoldShape(node);
  const Translator* translator = FindTranslator(node.op);
  FoldFunction fold = FindFold(node.op);
  bool unknown = false, only_shapes = true;
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    const Tracked& tracked = Get(input);
    if (tracked.kind == Tracked::Kind::kUnknown) unknown = true;
    only_shapes = only_shapes && !tracked.trains &&
                  (tracked.kind == Tracked::Kind::kConstant ||
                   (tracked.kind == Tracked::Kind::kUnknown && tracked.shape_arithmetic));
  }
  if (!unknown) return VisitKnown(node, translator, fold);
  // Behind something unsupported only the operator itself can be judged.
  if (fold != nullptr && only_shapes)
    SetUnknown(node, true);
  else if (translator != nullptr)
    SetUnknown(node, false);
  else
    Refuse(node, fold != nullptr ? "supported only on constants and shapes"
                                 : "this operator is not supported");
  return absl::OkStatus();
}

absl::Status Binder::FollowBatch(const FlatNode& node) {
  for (const std::string& output : node.outputs)
    if (by_name_.contains(output)) PD_RETURN_IF_ERROR(FollowBatch(node, output));
  return absl::OkStatus();
}

absl::Status Binder::FollowBatch(const FlatNode& node, const std::string& output) {
  Tracked& out = Get(output);
  if (out.kind != Tracked::Kind::kComputed) return absl::OkStatus();
  shapes_[output] = out.shape;
  if (!rebinding()) return absl::OkStatus();
  bool input_follows = false;
  for (const std::string& input : node.inputs)
    input_follows = input_follows || (!input.empty() && Get(input).batch_axis >= 0);
  auto found = in_.reference->find(output);
  if (found == in_.reference->end())
    return NodeError(node, InvalidArgument("its output was known when the model was exported"));
  const Shape& before = found->second;
  int changed = -1, changes = 0;
  bool fits = before.rank() == out.shape.rank();
  for (int axis = 0; fits && axis < before.rank(); ++axis) {
    if (before[axis] == out.shape[axis]) continue;
    changed = axis;
    ++changes;
    fits = before[axis] % in_.model.fixed_batch() == 0 &&
           before[axis] / in_.model.fixed_batch() * in_.batch == out.shape[axis];
  }
  bool may_lose =
      !input_follows || node.op == "SoftmaxCrossEntropyLoss" || node.op.starts_with("Reduce");
  if (fits && changes == 0 && may_lose) return absl::OkStatus();
  if (!fits || changes != 1)
    return NodeError(
        node, InvalidArgument("its output changes from {} to {}, which does not follow the batch: "
                              "the batch size is written into the model; export it with a dynamic "
                              "batch axis",
                              before.ToString(), out.shape.ToString()));
  out.batch_axis = changed;
  return absl::OkStatus();
}

absl::Status Binder::AddOutputs() {
  std::string symbol;
  for (const FlatInput& input : in_.model.inputs)
    if (symbol.empty()) symbol = input.batch_symbol;
  for (const FlatOutput& output : in_.model.outputs) {
    const Tracked& tracked = Get(output.name);
    if (tracked.kind == Tracked::Kind::kUnknown) continue;  // reported already
    if (!symbol.empty() && output.batch_symbol == symbol && tracked.shape.rank() > 0 &&
        tracked.shape[0] != in_.batch)
      return InvalidArgument(
          "graph output '{}' declares its leading axis as '{}' (the batch, {}), but it comes out "
          "as "
          "{}: a batch size is written into the model",
          output.name, symbol, in_.batch, tracked.shape.ToString());
    ValueId id = Materialize(output.name);
    // An alias gets a value of its own, so that the output is found by its name.
    if (builder_.graph().value(id).name != output.name) {
      PD_ASSIGN_OR_RETURN(
          auto made,
          builder_.AddNode(output.name, "Reshape", {id},
                           Attributes().Set("shape", tracked.shape.dims()), {output.name}));
      id = made[0];
    }
    builder_.AddOutput(id);
  }
  return absl::OkStatus();
}

absl::Status Binder::UnsupportedError() const {
  std::string list;
  for (const std::string& line : unsupported_) list += "\n  " + line;
  return Unimplemented("{} part{} of the model {} not supported:{}", unsupported_.size(),
                       unsupported_.size() == 1 ? "" : "s", unsupported_.size() == 1 ? "is" : "are",
                       list);
}

absl::StatusOr<Graph> Binder::Run() {
  PD_RETURN_IF_ERROR(AddInputs());
  AddConstants();
  for (const FlatNode& node : in_.model.nodes) PD_RETURN_IF_ERROR(Visit(node));
  PD_RETURN_IF_ERROR(AddOutputs());
  if (!unsupported_.empty()) return UnsupportedError();
  return std::move(builder_).Build();
}

}  // namespace pipedream::onnx_import
