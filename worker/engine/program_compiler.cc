#include "worker/engine/program_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "common/base/status.h"

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

void AppendTensor(const TensorSpec& spec, std::string* out) {
  fmt::format_to(std::back_inserter(*out), " {}{}{{{}}}", ToString(spec.dtype),
                 spec.shape.ToString(), spec.layout == nullptr ? "" : spec.layout->key);
}

std::string ReorderSignature(const TensorSpec& from, const TensorSpec& to) {
  std::string out = "reorder";
  AppendTensor(from, &out);
  AppendTensor(to, &out);
  return out;
}

std::string KernelSignature(const Node& node, const PreparedKernel& prepared) {
  std::string out = node.op + " " + node.attributes.ToString() + " (";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue)
      out += " -";
    else
      AppendTensor(prepared.inputs[i], &out);
  }
  out += " ) ->";
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    if (node.outputs[o] == kNoValue)
      out += " -";
    else
      AppendTensor(prepared.outputs[o], &out);
  }
  return out;
}

}  // namespace

ProgramCompiler::ProgramCompiler(const Graph& graph, const KernelBackend& backend,
                                 StageBuffers* buffers)
    : graph_(graph), backend_(backend), buffers_(*buffers) {}

int ProgramCompiler::NewBuffer(size_t bytes, int step) {
  arena_.push_back(buffers_.AddTemporary(bytes, step));
  return arena_.back();
}

void ProgramCompiler::ReadAt(int buffer, int step) {
  int& last = buffers_.at(buffer).last;
  last = std::max(last, step);
}

int ProgramCompiler::BindPlain(ValueId id) {
  const Value& value = graph_.value(id);
  TensorSpec spec = TensorSpec::Plain(value.dtype, value.shape);
  int buffer = NewBuffer(spec.bytes, 0);
  buffers_.Bind(id, buffer, std::move(spec));
  return buffer;
}

absl::StatusOr<int> ProgramCompiler::InputBuffer(NodeId node, ValueId value,
                                                 const TensorSpec& wanted) {
  Home& home = buffers_.home(value);
  if (buffers_.LayoutOpen(home.buffer)) {
    Buffer& buffer = buffers_.at(home.buffer);
    StoredTensor& parameter = buffers_.layout().parameters[buffer.stored];
    parameter.layout_open = false;
    parameter.spec = wanted;
    buffer.bytes = wanted.bytes;
    home.spec = wanted;
    return home.buffer;
  }
  if (SameLayout(home.spec, wanted)) return home.buffer;
  auto [begin, end] = copies_.equal_range(value);
  for (auto it = begin; it != end; ++it)
    if (SameLayout(it->second.spec, wanted)) return it->second.buffer;
  PD_ASSIGN_OR_RETURN(PreparedKernel reorder, backend_.PrepareReorder(home.spec, wanted));
  const int step = static_cast<int>(steps_.size());
  ReadAt(home.buffer, step);
  int copy = NewBuffer(wanted.bytes, step);
  steps_.push_back({node,
                    std::move(reorder.kernel),
                    {home.buffer},
                    {copy},
                    reorder.scratch_bytes,
                    ReorderSignature(home.spec, wanted)});
  copies_.emplace(value, Home{copy, wanted});
  buffers_.at(copy).values.push_back(value);
  return copy;
}

// Is every value in `buffer` read for the last time by the node at `position`?
bool ProgramCompiler::DiesHere(int buffer, int position) const {
  if (buffers_.at(buffer).region != Region::kArena) return false;
  for (ValueId value : buffers_.at(buffer).values) {
    auto it = last_reader_.find(value);
    if (it != last_reader_.end() && it->second > position) return false;
  }
  return true;
}

int ProgramCompiler::OutputBuffer(const Node& node, const PreparedKernel& prepared, int output,
                                  int position, const std::vector<int>& inputs) {
  const TensorSpec& spec = prepared.outputs[output];
  const ValueId value = node.outputs[output];
  if (prepared.alias && output == 0) return inputs[0];
  if (std::vector<int> targets = buffers_.ParametersOf(value);
      parameter_gradients_ && targets.size() == 1) {
    const bool only_here = !last_reader_.contains(value);
    if (only_here && SameLayout(spec, buffers_.layout().parameters[targets[0]].spec)) {
      gradients_done_.insert(targets[0]);
      return buffers_.AddStored(Region::kGradients, targets[0], spec);
    }
  }
  if (output < static_cast<int>(prepared.in_place.size())) {
    int from = prepared.in_place[output];
    if (from >= 0 && inputs[from] >= 0 && buffers_.at(inputs[from]).bytes == spec.bytes &&
        DiesHere(inputs[from], position)) {
      // Not if another input shares that memory.
      if (std::count(inputs.begin(), inputs.end(), inputs[from]) == 1) return inputs[from];
    }
  }
  return NewBuffer(spec.bytes, static_cast<int>(steps_.size()));
}

absl::Status ProgramCompiler::CompileNode(NodeId id, int position) {
  const Node& node = graph_.node(id);
  std::vector<OfferedInput> offered;
  for (ValueId input : node.inputs) {
    if (input == kNoValue) {
      offered.push_back({});
      continue;
    }
    const Home& home = buffers_.home(input);
    if (home.buffer < 0)
      return Internal("node '{}' reads '{}', which its stage does not have", node.name,
                      graph_.value(input).name);
    offered.push_back({home.spec, buffers_.LayoutOpen(home.buffer)});
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
  const int step = static_cast<int>(steps_.size());
  for (int buffer : inputs)
    if (buffer >= 0) ReadAt(buffer, step);
  std::vector<int> outputs;
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    int buffer = -1;
    if (node.outputs[o] != kNoValue) {
      buffer = OutputBuffer(node, *prepared, static_cast<int>(o), position, inputs);
      buffers_.Bind(node.outputs[o], buffer, prepared->outputs[o]);
      ReadAt(buffer, step);
    }
    outputs.push_back(buffer);
  }
  if (prepared->alias) prepared->kernel = nullptr;
  std::string signature = KernelSignature(node, *prepared);
  steps_.push_back({id, std::move(prepared->kernel), std::move(inputs), std::move(outputs),
                    prepared->scratch_bytes, std::move(signature)});
  return absl::OkStatus();
}

absl::Status ProgramCompiler::Compile(const std::vector<NodeId>& nodes,
                                      const std::vector<ValueId>& needed_after,
                                      bool parameter_gradients) {
  parameter_gradients_ = parameter_gradients;
  for (size_t k = 0; k < nodes.size(); ++k)
    for (ValueId input : graph_.node(nodes[k]).inputs)
      if (input != kNoValue) last_reader_[input] = static_cast<int>(k);
  for (ValueId value : needed_after) last_reader_[value] = kForever;
  for (size_t k = 0; k < nodes.size(); ++k)
    PD_RETURN_IF_ERROR(CompileNode(nodes[k], static_cast<int>(k)));
  if (parameter_gradients) PD_RETURN_IF_ERROR(FinishGradients());
  for (ValueId value : needed_after)
    if (int buffer = buffers_.home(value).buffer; buffer >= 0)
      ReadAt(buffer, static_cast<int>(steps_.size()));
  return absl::OkStatus();
}

// Gradients that could not be written where they belong are copied there at the end.
absl::Status ProgramCompiler::FinishGradients() {
  for (auto [gradient, index] : buffers_.gradient_targets()) {
    if (gradients_done_.contains(index)) continue;
    const Home& home = buffers_.home(gradient);
    if (home.buffer < 0)
      return Internal("no program makes the gradient of '{}'",
                      buffers_.layout().parameters[index].name);
    const TensorSpec& wanted = buffers_.layout().parameters[index].spec;
    ReadAt(home.buffer, static_cast<int>(steps_.size()));
    PendingStep copy{graph_.value(gradient).producer,    nullptr, {home.buffer}, {}, 0,
                     ReorderSignature(home.spec, wanted)};
    if (SameLayout(home.spec, wanted)) {
      copy.kernel = std::make_unique<CopyKernel>(wanted.bytes);
    } else {
      PD_ASSIGN_OR_RETURN(PreparedKernel reorder, backend_.PrepareReorder(home.spec, wanted));
      copy.kernel = std::move(reorder.kernel);
      copy.scratch_bytes = reorder.scratch_bytes;
    }
    copy.outputs = {buffers_.AddStored(Region::kGradients, index, wanted)};
    steps_.push_back(std::move(copy));
    gradients_done_.insert(index);
  }
  return absl::OkStatus();
}

void ProgramCompiler::Receive(const std::vector<StageMessage>& messages) {
  for (const StageMessage& from : messages) {
    PendingMessage pending;
    pending.message.stage = from.stage;
    for (ValueId id : from.values) {
      MessageItem item;
      item.value = id;
      item.message_offset = pending.message.bytes;
      item.bytes = graph_.value(id).bytes();
      pending.message.bytes += AlignUp(item.bytes);
      pending.buffers.push_back(BindPlain(id));
      pending.message.items.push_back(std::move(item));
    }
    received_.push_back(std::move(pending));
  }
}

absl::Status ProgramCompiler::Send(const std::vector<StageMessage>& messages) {
  for (const StageMessage& to : messages) {
    PendingMessage pending;
    pending.message.stage = to.stage;
    for (ValueId id : to.values) {
      const Home& home = buffers_.home(id);
      if (home.buffer < 0)
        return Internal("'{}' is to be sent, but its stage does not have it",
                        graph_.value(id).name);
      MessageItem item;
      item.value = id;
      item.message_offset = pending.message.bytes;
      item.bytes = graph_.value(id).bytes();
      if (home.spec.layout != nullptr) {
        TensorSpec plain = TensorSpec::Plain(home.spec.dtype, home.spec.shape);
        PD_ASSIGN_OR_RETURN(PreparedKernel reorder, backend_.PrepareReorder(home.spec, plain));
        if (reorder.scratch_bytes > 0)
          return Internal("a reorder of '{}' wants scratch memory", graph_.value(id).name);
        item.reorder = std::move(reorder.kernel);
      }
      pending.message.bytes += AlignUp(item.bytes);
      pending.buffers.push_back(home.buffer);
      pending.message.items.push_back(std::move(item));
    }
    sent_.push_back(std::move(pending));
  }
  return absl::OkStatus();
}

std::vector<Lifetime> ProgramCompiler::PlaceTemporaries(size_t* arena_bytes) {
  std::vector<Lifetime> lifetimes;
  std::vector<int> placed;
  for (int index : arena_) {
    const Buffer& buffer = buffers_.at(index);
    if (buffer.region != Region::kArena) continue;
    lifetimes.push_back({buffer.bytes, buffer.first, buffer.last});
    placed.push_back(index);
  }
  ArenaPlan plan = PlanArena(lifetimes);
  for (size_t i = 0; i < placed.size(); ++i) buffers_.at(placed[i]).offset = plan.offsets[i];
  *arena_bytes = plan.bytes;
  return lifetimes;
}

CompiledProgram ProgramCompiler::Finish() {
  CompiledProgram program;
  const std::vector<Lifetime> lifetimes = PlaceTemporaries(&program.arena_bytes);
  for (size_t k = 0; k < steps_.size(); ++k) {
    PendingStep& from = steps_[k];
    CompiledStep step;
    step.node = from.node;
    step.kernel = std::move(from.kernel);
    for (int buffer : from.inputs) step.inputs.push_back(buffers_.PlaceOf(buffer));
    for (int buffer : from.outputs) step.outputs.push_back(buffers_.PlaceOf(buffer));
    step.scratch_bytes = from.scratch_bytes;
    step.signature = std::move(from.signature);
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
  program.received = Finish(std::move(received_));
  program.sent = Finish(std::move(sent_));
  return program;
}

std::vector<CompiledMessage> ProgramCompiler::Finish(std::vector<PendingMessage> messages) const {
  std::vector<CompiledMessage> out;
  for (PendingMessage& pending : messages) {
    for (size_t i = 0; i < pending.buffers.size(); ++i)
      pending.message.items[i].place = buffers_.PlaceOf(pending.buffers[i]);
    out.push_back(std::move(pending.message));
  }
  return out;
}

}  // namespace pipedream
