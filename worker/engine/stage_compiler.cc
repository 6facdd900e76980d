#include "worker/engine/stage_compiler.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "common/base/status.h"
#include "worker/engine/memory_plan.h"

namespace pipedream {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();

class CopyKernel : public OpKernel {
 public:
  explicit CopyKernel(size_t bytes) : bytes_(bytes) {}
  absl::Status Run(const KernelArguments& arguments) override {
    std::memcpy(arguments.outputs[0], arguments.inputs[0], bytes_);
    return absl::OkStatus();
  }

 private:
  const size_t bytes_;
};

// While compiling, tensors are in numbered buffers; offsets come last.
struct Buffer {
  Region region = Region::kArena;
  size_t bytes = 0;
  size_t offset = 0;  // known at once for regions that the StageLayout places
  int stored = -1;    // index in the StageLayout's list of its region
  int first = 0;      // steps, for the arena
  int last = 0;
  std::vector<ValueId> values;  // that share it
};

struct Home {
  int buffer = -1;
  TensorSpec spec;
};

struct PendingStep {
  NodeId node = kNoNode;
  std::unique_ptr<OpKernel> kernel;
  std::vector<int> inputs;  // buffers, -1 where absent
  std::vector<int> outputs;
  size_t scratch_bytes = 0;
};

struct PendingProgram {
  std::vector<PendingStep> steps;
  std::vector<int> arena;  // buffers made for it, whatever their region became
};

struct PendingMessage {
  std::vector<MessageItem> items;
  std::vector<int> buffers;
  size_t bytes = 0;
};

class StageCompiler {
 public:
  StageCompiler(const TrainingGraph& training, const StageGraph& stage,
                const KernelBackend& backend, StageLayout* layout)
      : training_(training),
        graph_(training.graph),
        stage_(stage),
        backend_(backend),
        layout_(*layout),
        first_(layout->parameters.empty() && layout->constants.empty() && layout->states.empty()),
        homes_(graph_.values().size()) {
    saved_.insert(stage.saved.begin(), stage.saved.end());
    for (const ParameterGradient& g : training.gradients)
      gradient_of_.emplace(g.parameter.value(), g.gradient);
  }

  absl::StatusOr<CompiledStage> Compile(int64_t samples);

 private:
  absl::Status PlaceStored();
  absl::Status PlaceStoredValue(ValueId id);
  int StoredBuffer(Region region, int index, const TensorSpec& spec);
  int NewBuffer(size_t bytes, int first);
  void Bind(ValueId id, int buffer, TensorSpec spec);
  int BindPlain(ValueId id);

  absl::Status CompileProgram(std::vector<NodeId> nodes, const std::vector<ValueId>& needed_after);
  absl::Status CompileNode(NodeId id, int position);
  absl::StatusOr<int> InputBuffer(NodeId node, ValueId value, const TensorSpec& wanted);
  int OutputBuffer(const Node& node, const PreparedKernel& prepared, int output, int position,
                   const std::vector<int>& inputs);
  bool DiesHere(int buffer, int position) const;
  absl::Status FinishGradients();
  absl::StatusOr<PendingMessage> Unpack(const std::vector<ValueId>& values);
  absl::StatusOr<PendingMessage> Pack(const std::vector<ValueId>& values);
  void FinishLayout();
  CompiledProgram Finish(PendingProgram pending);
  std::vector<MessageItem> Finish(PendingMessage message) const;
  Place PlaceOf(int buffer) const;
  void ForgetTemporaries();

  const TrainingGraph& training_;
  const Graph& graph_;
  const StageGraph& stage_;
  const KernelBackend& backend_;
  StageLayout& layout_;
  const bool first_;
  std::set<ValueId> saved_;
  std::map<int32_t, ValueId> gradient_of_;       // parameter -> gradient
  std::multimap<ValueId, int> gradient_target_;  // gradient -> parameter index in layout_
  std::set<int> gradients_done_;                 // parameter indices
  std::vector<Buffer> buffers_;
  std::vector<Home> homes_;  // by value; buffer -1: not there yet
  // Of the program being compiled:
  PendingProgram* program_ = nullptr;
  std::map<ValueId, int> last_reader_;   // node position, kForever: needed after
  std::multimap<ValueId, Home> copies_;  // reordered copies made so far
};

int StageCompiler::NewBuffer(size_t bytes, int first) {
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.first = buffer.last = first;
  buffers_.push_back(std::move(buffer));
  int index = static_cast<int>(buffers_.size()) - 1;
  program_->arena.push_back(index);
  return index;
}

int StageCompiler::StoredBuffer(Region region, int index, const TensorSpec& spec) {
  Buffer buffer;
  buffer.region = region;
  buffer.bytes = spec.bytes;
  buffer.stored = index;
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

void StageCompiler::Bind(ValueId id, int buffer, TensorSpec spec) {
  homes_[id.value()] = {buffer, std::move(spec)};
  buffers_[buffer].values.push_back(id);
  if (saved_.contains(id) && buffers_[buffer].region == Region::kArena)
    buffers_[buffer].region = Region::kSlot;
}

int StageCompiler::BindPlain(ValueId id) {
  const Value& value = graph_.value(id);
  TensorSpec spec = TensorSpec::Plain(value.dtype, value.shape);
  int buffer = NewBuffer(spec.bytes, 0);
  Bind(id, buffer, std::move(spec));
  return buffer;
}

// Parameters, states and constants that the stage's nodes read.
absl::Status StageCompiler::PlaceStored() {
  std::set<ValueId> seen;
  for (const auto* nodes : {&stage_.forward, &stage_.input_gradient, &stage_.weight_gradient}) {
    for (NodeId id : *nodes) {
      for (ValueId input : graph_.node(id).inputs) {
        if (input == kNoValue || !seen.insert(input).second) continue;
        ValueKind kind = graph_.value(input).kind;
        if (kind == ValueKind::kInput || kind == ValueKind::kComputed) continue;
        PD_RETURN_IF_ERROR(PlaceStoredValue(input));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status StageCompiler::PlaceStoredValue(ValueId id) {
  const Value& value = graph_.value(id);
  auto find = [&](std::vector<StoredTensor>& list) {
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].name == value.name) return static_cast<int>(i);
    return -1;
  };
  auto add = [&](std::vector<StoredTensor>& list, std::string name) {
    StoredTensor stored;
    stored.value = id;
    stored.name = std::move(name);
    stored.spec = TensorSpec::Plain(value.dtype, value.shape);
    stored.initial = value.data;
    list.push_back(std::move(stored));
    return static_cast<int>(list.size()) - 1;
  };
  auto same_bytes = [&](const Tensor& tensor) {
    return tensor.dtype() == value.data.dtype() && tensor.shape() == value.data.shape() &&
           std::ranges::equal(tensor.bytes(), value.data.bytes());
  };

  int index = find(layout_.parameters);
  if (index < 0 && first_ && value.kind == ValueKind::kParameter &&
      gradient_of_.contains(id.value())) {
    index = add(layout_.parameters, value.name);
    layout_.parameters[index].layout_open = true;
    layout_.parameters[index].trains = true;
  }
  if (index >= 0) {
    if (auto it = gradient_of_.find(id.value()); it != gradient_of_.end())
      gradient_target_.emplace(it->second, index);
    Bind(id, StoredBuffer(Region::kParameters, index, layout_.parameters[index].spec),
         layout_.parameters[index].spec);
    return absl::OkStatus();
  }
  if (value.kind == ValueKind::kState) {
    index = find(layout_.states);
    if (index < 0) index = add(layout_.states, value.name);
    Bind(id, StoredBuffer(Region::kStates, index, layout_.states[index].spec),
         layout_.states[index].spec);
    return absl::OkStatus();
  }
  // A constant, or a parameter that nothing trains. A constant may depend on the microbatch size.
  index = find(layout_.constants);
  if (index >= 0 && !same_bytes(layout_.constants[index].initial)) index = -1;
  if (index < 0) index = add(layout_.constants, value.name);
  Bind(id, StoredBuffer(Region::kConstants, index, layout_.constants[index].spec),
       layout_.constants[index].spec);
  return absl::OkStatus();
}

absl::StatusOr<int> StageCompiler::InputBuffer(NodeId node, ValueId value,
                                               const TensorSpec& wanted) {
  Home& home = homes_[value.value()];
  Buffer& buffer = buffers_[home.buffer];
  if (buffer.region == Region::kParameters && layout_.parameters[buffer.stored].layout_open) {
    layout_.parameters[buffer.stored].layout_open = false;
    layout_.parameters[buffer.stored].spec = wanted;
    buffer.bytes = wanted.bytes;
    home.spec = wanted;
    return home.buffer;
  }
  if (SameLayout(home.spec, wanted)) return home.buffer;
  auto [begin, end] = copies_.equal_range(value);
  for (auto it = begin; it != end; ++it)
    if (SameLayout(it->second.spec, wanted)) return it->second.buffer;
  PD_ASSIGN_OR_RETURN(PreparedKernel reorder, backend_.PrepareReorder(home.spec, wanted));
  const int step = static_cast<int>(program_->steps.size());
  buffers_[home.buffer].last = std::max(buffers_[home.buffer].last, step);
  int copy = NewBuffer(wanted.bytes, step);
  program_->steps.push_back({node,
                             std::move(reorder.kernel),
                             {homes_[value.value()].buffer},
                             {copy},
                             reorder.scratch_bytes});
  copies_.emplace(value, Home{copy, wanted});
  buffers_[copy].values.push_back(value);
  return copy;
}

// Is every value in `buffer` read for the last time by the node at `position`?
bool StageCompiler::DiesHere(int buffer, int position) const {
  if (buffers_[buffer].region != Region::kArena) return false;
  for (ValueId value : buffers_[buffer].values) {
    auto it = last_reader_.find(value);
    if (it != last_reader_.end() && it->second > position) return false;
  }
  return true;
}

int StageCompiler::OutputBuffer(const Node& node, const PreparedKernel& prepared, int output,
                                int position, const std::vector<int>& inputs) {
  const TensorSpec& spec = prepared.outputs[output];
  const ValueId value = node.outputs[output];
  if (prepared.alias && output == 0) return inputs[0];
  if (auto it = gradient_target_.find(value); gradient_target_.count(value) == 1) {
    const StoredTensor& parameter = layout_.parameters[it->second];
    const bool only_here = !last_reader_.contains(value);
    if (only_here && SameLayout(spec, parameter.spec)) {
      gradients_done_.insert(it->second);
      return StoredBuffer(Region::kGradients, it->second, spec);
    }
  }
  if (output < static_cast<int>(prepared.in_place.size())) {
    int from = prepared.in_place[output];
    if (from >= 0 && inputs[from] >= 0 && buffers_[inputs[from]].bytes == spec.bytes &&
        DiesHere(inputs[from], position)) {
      // Not if another input shares that memory.
      if (std::count(inputs.begin(), inputs.end(), inputs[from]) == 1) return inputs[from];
    }
  }
  return NewBuffer(spec.bytes, static_cast<int>(program_->steps.size()));
}

absl::Status StageCompiler::CompileNode(NodeId id, int position) {
  const Node& node = graph_.node(id);
  std::vector<OfferedInput> offered;
  for (ValueId input : node.inputs) {
    if (input == kNoValue) {
      offered.push_back({});
      continue;
    }
    const Home& home = homes_[input.value()];
    if (home.buffer < 0)
      return Internal("node '{}' reads '{}', which its stage does not have", node.name,
                      graph_.value(input).name);
    const Buffer& buffer = buffers_[home.buffer];
    offered.push_back({home.spec, buffer.region == Region::kParameters &&
                                      layout_.parameters[buffer.stored].layout_open});
  }
  auto prepared = backend_.Prepare(graph_, node, offered);
  if (!prepared.ok())
    return Annotate(prepared.status(), fmt::format("node '{}' ({})", node.name, node.op));

  std::vector<int> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    int buffer = -1;
    if (node.inputs[i] != kNoValue) {
      PD_ASSIGN_OR_RETURN(buffer, InputBuffer(id, node.inputs[i], prepared->inputs[i]));
    }
    inputs.push_back(buffer);
  }
  const int step = static_cast<int>(program_->steps.size());
  for (int buffer : inputs)
    if (buffer >= 0) buffers_[buffer].last = std::max(buffers_[buffer].last, step);
  std::vector<int> outputs;
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    int buffer = -1;
    if (node.outputs[o] != kNoValue) {
      buffer = OutputBuffer(node, *prepared, static_cast<int>(o), position, inputs);
      Bind(node.outputs[o], buffer, prepared->outputs[o]);
      buffers_[buffer].last = std::max(buffers_[buffer].last, step);
    }
    outputs.push_back(buffer);
  }
  if (prepared->alias) prepared->kernel = nullptr;
  program_->steps.push_back({id, std::move(prepared->kernel), std::move(inputs), std::move(outputs),
                             prepared->scratch_bytes});
  return absl::OkStatus();
}

absl::Status StageCompiler::CompileProgram(std::vector<NodeId> nodes,
                                           const std::vector<ValueId>& needed_after) {
  std::sort(nodes.begin(), nodes.end());
  last_reader_.clear();
  copies_.clear();
  for (size_t k = 0; k < nodes.size(); ++k)
    for (ValueId input : graph_.node(nodes[k]).inputs)
      if (input != kNoValue) last_reader_[input] = static_cast<int>(k);
  for (ValueId value : needed_after) last_reader_[value] = kForever;
  for (size_t k = 0; k < nodes.size(); ++k)
    PD_RETURN_IF_ERROR(CompileNode(nodes[k], static_cast<int>(k)));
  PD_RETURN_IF_ERROR(FinishGradients());
  for (ValueId value : needed_after)
    if (int buffer = homes_[value.value()].buffer; buffer >= 0)
      buffers_[buffer].last = static_cast<int>(program_->steps.size());
  return absl::OkStatus();
}

// Gradients that could not be written where they belong are copied there at the end.
absl::Status StageCompiler::FinishGradients() {
  for (auto [gradient, index] : gradient_target_) {
    const Home& home = homes_[gradient.value()];
    if (home.buffer < 0 || gradients_done_.contains(index)) continue;
    const TensorSpec& wanted = layout_.parameters[index].spec;
    const int step = static_cast<int>(program_->steps.size());
    buffers_[home.buffer].last = std::max(buffers_[home.buffer].last, step);
    PendingStep copy{graph_.value(gradient).producer, nullptr, {home.buffer}, {}, 0};
    if (SameLayout(home.spec, wanted)) {
      copy.kernel = std::make_unique<CopyKernel>(wanted.bytes);
    } else {
      PD_ASSIGN_OR_RETURN(PreparedKernel reorder, backend_.PrepareReorder(home.spec, wanted));
      copy.kernel = std::move(reorder.kernel);
      copy.scratch_bytes = reorder.scratch_bytes;
    }
    copy.outputs = {StoredBuffer(Region::kGradients, index, wanted)};
    program_->steps.push_back(std::move(copy));
    gradients_done_.insert(index);
  }
  return absl::OkStatus();
}

absl::StatusOr<PendingMessage> StageCompiler::Unpack(const std::vector<ValueId>& values) {
  PendingMessage message;
  for (ValueId id : values) {
    MessageItem item;
    item.value = id;
    item.message_offset = message.bytes;
    item.bytes = graph_.value(id).bytes();
    message.bytes += AlignUp(item.bytes);
    message.buffers.push_back(BindPlain(id));
    message.items.push_back(std::move(item));
  }
  return message;
}

absl::StatusOr<PendingMessage> StageCompiler::Pack(const std::vector<ValueId>& values) {
  PendingMessage message;
  for (ValueId id : values) {
    const Home& home = homes_[id.value()];
    if (home.buffer < 0)
      return Internal("'{}' is to be sent, but its stage does not have it", graph_.value(id).name);
    MessageItem item;
    item.value = id;
    item.message_offset = message.bytes;
    item.bytes = graph_.value(id).bytes();
    if (home.spec.layout != nullptr) {
      TensorSpec plain = TensorSpec::Plain(home.spec.dtype, home.spec.shape);
      PD_ASSIGN_OR_RETURN(PreparedKernel reorder, backend_.PrepareReorder(home.spec, plain));
      if (reorder.scratch_bytes > 0)
        return Internal("a reorder of '{}' wants scratch memory", graph_.value(id).name);
      item.reorder = std::move(reorder.kernel);
    }
    message.bytes += AlignUp(item.bytes);
    message.buffers.push_back(home.buffer);
    message.items.push_back(std::move(item));
  }
  return message;
}

void StageCompiler::FinishLayout() {
  auto place = [](std::vector<StoredTensor>& list) {
    size_t bytes = 0;
    for (StoredTensor& stored : list) {
      stored.layout_open = false;
      stored.offset = bytes;
      bytes += AlignUp(stored.spec.bytes);
    }
    return bytes;
  };
  layout_.parameter_bytes = place(layout_.parameters);
  layout_.state_bytes = place(layout_.states);
  layout_.constant_bytes = place(layout_.constants);
}

Place StageCompiler::PlaceOf(int index) const {
  if (index < 0) return {};
  const Buffer& buffer = buffers_[index];
  Place place{buffer.region, buffer.offset, true};
  switch (buffer.region) {
    case Region::kParameters:
    case Region::kGradients:
      place.offset = layout_.parameters[buffer.stored].offset;
      break;
    case Region::kStates:
      place.offset = layout_.states[buffer.stored].offset;
      break;
    case Region::kConstants:
      place.offset = layout_.constants[buffer.stored].offset;
      break;
    case Region::kArena:
    case Region::kSlot:
      break;
  }
  return place;
}

// The arena's content does not outlive a program: backward may read only what was saved.
void StageCompiler::ForgetTemporaries() {
  for (Home& home : homes_)
    if (home.buffer >= 0 && buffers_[home.buffer].region == Region::kArena) home.buffer = -1;
}

CompiledProgram StageCompiler::Finish(PendingProgram pending) {
  std::vector<Lifetime> lifetimes;
  std::vector<int> placed;
  for (int index : pending.arena) {
    if (buffers_[index].region != Region::kArena) continue;
    lifetimes.push_back({buffers_[index].bytes, buffers_[index].first, buffers_[index].last});
    placed.push_back(index);
  }
  ArenaPlan arena = PlanArena(lifetimes);
  for (size_t i = 0; i < placed.size(); ++i) buffers_[placed[i]].offset = arena.offsets[i];

  CompiledProgram program;
  program.arena_bytes = arena.bytes;
  for (size_t k = 0; k < pending.steps.size(); ++k) {
    PendingStep& from = pending.steps[k];
    CompiledStep step;
    step.node = from.node;
    step.kernel = std::move(from.kernel);
    for (int buffer : from.inputs) step.inputs.push_back(PlaceOf(buffer));
    for (int buffer : from.outputs) step.outputs.push_back(PlaceOf(buffer));
    step.scratch_bytes = from.scratch_bytes;
    step.updates_state = graph_.node(from.node).op == "UpdateRunningStatistics";
    step.live_bytes = AlignUp(from.scratch_bytes);
    for (const Lifetime& l : lifetimes)
      if (l.first <= static_cast<int>(k) && static_cast<int>(k) <= l.last)
        step.live_bytes += AlignUp(l.bytes);
    step.input_pointers.resize(step.inputs.size());
    step.output_pointers.resize(step.outputs.size());
    program.scratch_bytes = std::max(program.scratch_bytes, from.scratch_bytes);
    program.steps.push_back(std::move(step));
  }
  return program;
}

std::vector<MessageItem> StageCompiler::Finish(PendingMessage message) const {
  for (size_t i = 0; i < message.items.size(); ++i)
    message.items[i].place = PlaceOf(message.buffers[i]);
  return std::move(message.items);
}

absl::StatusOr<CompiledStage> StageCompiler::Compile(int64_t samples) {
  CompiledStage out;
  out.samples = samples;
  PD_RETURN_IF_ERROR(PlaceStored());

  PendingProgram forward;
  program_ = &forward;
  std::vector<int> load_buffers;
  for (ValueId id : stage_.inputs) {
    out.loads.push_back({graph_.value(id).name, graph_.value(id).dtype, {}});
    load_buffers.push_back(BindPlain(id));
  }
  PD_ASSIGN_OR_RETURN(PendingMessage activations_in, Unpack(stage_.received));
  std::vector<ValueId> needed = stage_.sent;
  auto is_here = [&](ValueId id) {
    return id != kNoValue && std::ranges::count(stage_.forward, graph_.value(id).producer) > 0;
  };
  for (ValueId id : {training_.loss, training_.correct})
    if (is_here(id)) needed.push_back(id);
  PD_RETURN_IF_ERROR(CompileProgram(stage_.forward, needed));
  PD_ASSIGN_OR_RETURN(PendingMessage activations_out, Pack(stage_.sent));

  const int loss = training_.loss == kNoValue ? -1 : homes_[training_.loss.value()].buffer;
  const int correct = training_.correct == kNoValue ? -1 : homes_[training_.correct.value()].buffer;
  ForgetTemporaries();

  PendingProgram backward;
  program_ = &backward;
  PD_ASSIGN_OR_RETURN(PendingMessage gradients_in, Unpack(stage_.gradients_received));
  std::vector<NodeId> gradient_nodes = stage_.input_gradient;
  gradient_nodes.insert(gradient_nodes.end(), stage_.weight_gradient.begin(),
                        stage_.weight_gradient.end());
  PD_RETURN_IF_ERROR(CompileProgram(std::move(gradient_nodes), stage_.gradients_sent));
  PD_ASSIGN_OR_RETURN(PendingMessage gradients_out, Pack(stage_.gradients_sent));

  FinishLayout();
  for (Buffer& buffer : buffers_) {
    if (buffer.region != Region::kSlot) continue;
    buffer.offset = out.slot_bytes;
    out.slot_bytes += AlignUp(buffer.bytes);
    out.saved.push_back({buffer.values.front(), AlignUp(buffer.bytes)});
  }
  out.forward = Finish(std::move(forward));
  out.backward = Finish(std::move(backward));
  for (size_t i = 0; i < out.loads.size(); ++i) out.loads[i].place = PlaceOf(load_buffers[i]);
  out.activation_in_bytes = activations_in.bytes;
  out.activation_out_bytes = activations_out.bytes;
  out.gradient_in_bytes = gradients_in.bytes;
  out.gradient_out_bytes = gradients_out.bytes;
  out.activations_in = Finish(std::move(activations_in));
  out.activations_out = Finish(std::move(activations_out));
  out.gradients_in = Finish(std::move(gradients_in));
  out.gradients_out = Finish(std::move(gradients_out));
  out.loss = PlaceOf(loss);
  if (correct >= 0) {
    out.correct = PlaceOf(correct);
    const Node& loss = graph_.node(graph_.value(training_.correct).producer);
    out.loss_positions = graph_.value(loss.inputs[1]).shape.elements();
  }
  return out;
}

}  // namespace

absl::StatusOr<CompiledStage> CompileStage(const TrainingGraph& training, const StageGraph& stage,
                                           const KernelBackend& backend, int64_t samples,
                                           StageLayout* layout) {
  return StageCompiler(training, stage, backend, layout).Compile(samples);
}

}  // namespace pipedream
