// Where a stage's tensors lie, while it is compiled: numbered buffers whose offsets come last, and
// the buffer and layout of every value. Shared by the compilers of one stage's programs.
#pragma once

#include <absl/status/status.h>

#include <map>
#include <set>
#include <vector>

#include "common/graph/training_graph.h"
#include "worker/engine/compiled_stage.h"

namespace pipedream {

struct Buffer {
  Region region = Region::kArena;
  size_t bytes = 0;
  size_t offset = 0;  // of arena and slot, once planned
  int stored = -1;    // index in the StageLayout's list of its region
  int first = 0;      // steps of its program, for the arena
  int last = 0;
  std::vector<ValueId> values;  // that share it
};

struct Home {
  int buffer = -1;  // -1: not there yet
  TensorSpec spec;
};

class StageBuffers {
 public:
  // Borrows all.
  StageBuffers(const TrainingGraph& training, const StageGraph& stage, StageLayout* layout);

  // Gives parameters, states and constants that the stage's nodes read their homes.
  void PlaceStored();

  Buffer& at(int buffer) { return buffers_[buffer]; }
  const Buffer& at(int buffer) const { return buffers_[buffer]; }
  Home& home(ValueId id) { return homes_[id.value()]; }
  int AddTemporary(size_t bytes, int step);
  int AddStored(Region region, int index, const TensorSpec& spec);
  // `id` lies in `buffer`, which moves to the slot if the value must be kept there.
  void Bind(ValueId id, int buffer, TensorSpec spec);
  // Values bound from now on that lie in the slot, if not in a region that stays anyway.
  void KeepInSlot(const std::set<ValueId>& values) { slot_values_ = values; }
  // The arena's content does not outlive a program: only what is stored or kept is still there.
  void ForgetTemporaries();
  // And the values of gradient nodes, so that another program may make them anew.
  void ForgetGradients();

  StageLayout& layout() { return layout_; }
  // Indices in layout().parameters whose gradient `value` is.
  std::vector<int> ParametersOf(ValueId value) const;
  const std::multimap<ValueId, int>& gradient_targets() const { return gradient_targets_; }
  bool LayoutOpen(int buffer) const;

  // Once all is bound: offsets of the layout and of the slot. Returns the slot's tensors.
  std::vector<SavedTensor> Finish(size_t* slot_bytes);
  // REQUIRES: Finish was called; temporaries have their offset.
  Place PlaceOf(int buffer) const;

 private:
  void PlaceStoredValue(ValueId id);

  const TrainingGraph& training_;
  const Graph& graph_;
  const StageGraph& stage_;
  StageLayout& layout_;
  const bool first_;                              // this call chooses the layout
  std::map<ValueId, ValueId> gradient_of_;        // parameter -> gradient
  std::multimap<ValueId, int> gradient_targets_;  // gradient -> parameter index in layout_
  std::set<ValueId> slot_values_;
  std::vector<Buffer> buffers_;
  std::vector<Home> homes_;  // by value
};

}  // namespace pipedream
