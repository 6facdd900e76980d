#include "worker/engine/stage_buffers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "worker/engine/memory_plan.h"

namespace pipedream {

StageBuffers::StageBuffers(const TrainingGraph& training, const StageGraph& stage,
                           StageLayout* layout)
    : training_(training),
      graph_(training.graph),
      stage_(stage),
      layout_(*layout),
      first_(layout->parameters.empty() && layout->constants.empty() && layout->states.empty()),
      homes_(graph_.values().size()) {
  for (const ParameterGradient& g : stage.gradients) gradient_of_.emplace(g.parameter, g.gradient);
}

int StageBuffers::AddTemporary(size_t bytes, int step) {
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.first = buffer.last = step;
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

int StageBuffers::AddStored(Region region, int index, const TensorSpec& spec) {
  Buffer buffer;
  buffer.region = region;
  buffer.bytes = spec.bytes;
  buffer.stored = index;
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

void StageBuffers::Bind(ValueId id, int buffer, TensorSpec spec) {
  homes_[id.value()] = {buffer, std::move(spec)};
  buffers_[buffer].values.push_back(id);
  if (slot_values_.contains(id) && buffers_[buffer].region == Region::kArena)
    buffers_[buffer].region = Region::kSlot;
}

void StageBuffers::PlaceStored() {
  std::set<ValueId> seen;
  for (const auto* nodes : {&stage_.forward, &stage_.input_gradient, &stage_.weight_gradient}) {
    for (NodeId id : *nodes) {
      for (ValueId input : graph_.node(id).inputs) {
        if (input == kNoValue || !seen.insert(input).second) continue;
        ValueKind kind = graph_.value(input).kind;
        if (kind != ValueKind::kInput && kind != ValueKind::kComputed) PlaceStoredValue(input);
      }
    }
  }
}

void StageBuffers::PlaceStoredValue(ValueId id) {
  const Value& value = graph_.value(id);
  auto find = [&](std::vector<StoredTensor>& list) {
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].name == value.name) return static_cast<int>(i);
    return -1;
  };
  auto add = [&](std::vector<StoredTensor>& list) {
    StoredTensor stored;
    stored.value = id;
    stored.name = value.name;
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
  if (index < 0 && first_ && value.kind == ValueKind::kParameter && gradient_of_.contains(id)) {
    index = add(layout_.parameters);
    StoredTensor& parameter = layout_.parameters[index];
    parameter.trains = true;
    auto shared = std::ranges::find(stage_.shared, id, &SharedParameter::parameter);
    // Holders add their gradients element by element, so none may choose a layout of its own.
    if (shared != stage_.shared.end())
      parameter.holders = shared->stages;
    else
      parameter.layout_open = true;
  }
  if (index >= 0) {
    if (auto it = gradient_of_.find(id); it != gradient_of_.end())
      gradient_targets_.emplace(it->second, index);
    Bind(id, AddStored(Region::kParameters, index, layout_.parameters[index].spec),
         layout_.parameters[index].spec);
    return;
  }
  if (value.kind == ValueKind::kState) {
    index = find(layout_.states);
    if (index < 0) index = add(layout_.states);
    Bind(id, AddStored(Region::kStates, index, layout_.states[index].spec),
         layout_.states[index].spec);
    return;
  }
  // A constant, or a parameter that nothing trains. A constant may depend on the microbatch size.
  index = find(layout_.constants);
  if (index >= 0 && !same_bytes(layout_.constants[index].initial)) index = -1;
  if (index < 0) index = add(layout_.constants);
  Bind(id, AddStored(Region::kConstants, index, layout_.constants[index].spec),
       layout_.constants[index].spec);
}

void StageBuffers::ForgetTemporaries() {
  for (Home& home : homes_)
    if (home.buffer >= 0 && buffers_[home.buffer].region == Region::kArena) home.buffer = -1;
}

void StageBuffers::ForgetGradients() {
  for (int n = training_.forward_nodes; n < graph_.node_count(); ++n)
    for (ValueId id : graph_.node(NodeId(n)).outputs)
      if (id != kNoValue) homes_[id.value()].buffer = -1;
}

std::vector<int> StageBuffers::ParametersOf(ValueId value) const {
  std::vector<int> parameters;
  auto [begin, end] = gradient_targets_.equal_range(value);
  for (auto it = begin; it != end; ++it) parameters.push_back(it->second);
  return parameters;
}

bool StageBuffers::LayoutOpen(int buffer) const {
  return buffers_[buffer].region == Region::kParameters &&
         layout_.parameters[buffers_[buffer].stored].layout_open;
}

std::vector<SavedTensor> StageBuffers::Finish(size_t* slot_bytes) {
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
  std::vector<SavedTensor> saved;
  for (Buffer& buffer : buffers_) {
    if (buffer.region != Region::kSlot) continue;
    buffer.offset = *slot_bytes;
    *slot_bytes += AlignUp(buffer.bytes);
    saved.push_back({buffer.values, AlignUp(buffer.bytes)});
  }
  return saved;
}

Place StageBuffers::PlaceOf(int index) const {
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

}  // namespace pipedream
